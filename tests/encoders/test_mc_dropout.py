"""Dropout at test time: against a plain loop, and leaving no trace."""

import copy

import pytest
import torch
from torch import nn

from surefind.embeddings import Gaussians
from surefind.encoders import Encoder, EncoderConfig, McDropoutEncoder
from surefind.encoders.heads import log_map
from surefind.errors import InvalidArgument
from surefind.images.preprocess import Preprocessing


@pytest.fixture(scope="module")
def densenet() -> Encoder:
    """Dropout inside the backbone, by function, beside batch norm."""
    small = Preprocessing(size=32)
    config = EncoderConfig("densenet121", dim=8, family="point", dropout=0.2, preprocessing=small)
    return Encoder.create(config)


@pytest.fixture
def pixels() -> torch.Tensor:
    return torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


class ByHand(nn.Module):
    """Dropout that loses the units of a given mask, the same for every image."""

    def __init__(self, p: float, generator: torch.Generator) -> None:
        super().__init__()
        self.p, self.generator = p, generator

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        noise = torch.rand((1, *features.shape[1:]), generator=self.generator)
        return torch.where(noise < self.p, 0.0, features / (1 - self.p))


def naive(encoder: Encoder, pixels: torch.Tensor, *, passes: int, seed: int) -> Gaussians:
    """One image at a time, the whole head for every pass, sums in plain loops."""
    rows = []
    for pixel in pixels:
        generator = torch.Generator().manual_seed(seed)
        head = copy.deepcopy(encoder.mean_head)
        head.dropout = ByHand(encoder.config.head_dropout, generator)
        other = copy.deepcopy(encoder.variance_head)
        other.dropout = ByHand(encoder.config.head_dropout, generator)
        with torch.no_grad():
            logs = log_map(encoder.eval().features(pixel[None]))
            means = []
            for _ in range(passes):
                mean = head(logs)
                other(logs)  # draws, too
                means.append((mean / mean.norm(dim=1, keepdim=True)).double())
        centre = sum(means) / passes
        per_dimension = sum((mean - centre) ** 2 for mean in means) / (passes - 1)
        rows.append((centre, per_dimension.sum(dim=1) / centre.shape[1]))
    return Gaussians(*(torch.cat(side) for side in zip(*rows, strict=True)))


def state(encoder: Encoder) -> tuple[list[bool], str]:
    return [part.training for part in encoder.modules()], encoder.fingerprint


def test_passes_agree_with_a_plain_loop(tiny, pixels):
    encoder = tiny(head_dropout=0.3)
    found = McDropoutEncoder(encoder, passes=4, seed=7).embed_pixels(pixels)
    expected = naive(encoder, pixels, passes=4, seed=7)
    torch.testing.assert_close(found.mean.double(), expected.mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.var.double(), expected.var, rtol=1e-3, atol=1e-9)
    assert (found.var > 1e-6).all()


@pytest.mark.parametrize("kind", ["backbone", "heads"])
def test_an_embedding_does_not_depend_on_its_place_in_the_batch(densenet, tiny, pixels, kind):
    encoder = McDropoutEncoder(densenet if kind == "backbone" else tiny(head_dropout=0.3), passes=4)
    together, turned = encoder.embed_pixels(pixels), encoder.embed_pixels(pixels.flip(0))
    alone = Gaussians.cat([encoder.embed_pixels(pixel[None]) for pixel in pixels])
    for other in (turned[[2, 1, 0]], alone):
        torch.testing.assert_close(other.mean, together.mean, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(other.var, together.var, rtol=1e-3, atol=1e-8)
    assert (together.var > 1e-6).all()


@pytest.mark.parametrize("training", [False, True])
def test_modes_and_batch_norm_statistics_are_left_as_they_were(densenet, pixels, training):
    densenet.train(training)
    before, random = state(densenet), torch.get_rng_state()
    McDropoutEncoder(densenet, passes=2).embed_pixels(pixels)
    with pytest.raises(RuntimeError):
        McDropoutEncoder(densenet, passes=2).embed_pixels(torch.zeros(1, 4, 32, 32))
    assert state(densenet) == before
    assert torch.equal(random, torch.get_rng_state())


def test_the_backbone_runs_once_if_only_the_heads_drop(densenet, tiny, pixels):
    for encoder, wanted in ((tiny(head_dropout=0.5), 1), (densenet, 5)):
        runs: list[int] = []
        with encoder.backbone.register_forward_hook(lambda *_, runs=runs: runs.append(1)):
            McDropoutEncoder(encoder, passes=5).embed_pixels(pixels)
        assert len(runs) == wanted


def test_a_seed_decides_the_result(tiny, pixels, pictures):
    encoder = tiny(head_dropout=0.5)
    first, again, other = (McDropoutEncoder(encoder, seed=s).embed_pixels(pixels) for s in (1, 1, 2))
    assert torch.equal(first.mean, again.mean) and torch.equal(first.var, again.var)
    assert not torch.equal(first.var, other.var)
    images = McDropoutEncoder(encoder, passes=3)
    assert torch.equal(images.encode(pictures).var, images.encode(pictures).var)


def test_an_encoder_without_dropout_or_a_single_pass_is_refused(tiny):
    with pytest.raises(InvalidArgument, match="with dropout"):
        McDropoutEncoder(tiny())
    with pytest.raises(InvalidArgument, match="at least 2"):
        McDropoutEncoder(tiny(head_dropout=0.5), passes=1)
