"""The encoder as a module: families, seeds, fingerprints."""

from dataclasses import replace

import pytest
import torch

from surefind.embeddings import Gaussians, VonMisesFisher
from surefind.encoders import Encoder, EncoderConfig
from surefind.encoders.encoder import POINT_VAR
from surefind.encoders.heads import log_map
from surefind.errors import InvalidArgument
from surefind.images.preprocess import Preprocessing


@pytest.fixture
def pixels() -> torch.Tensor:
    return torch.randn(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_gaussian_means_have_one_trained_length(tiny, pixels):
    encoder = tiny()
    with torch.no_grad():
        encoder.log_scale.fill_(0.5)
    embeddings = encoder(pixels)
    assert isinstance(embeddings, Gaussians) and embeddings.dim == 16
    torch.testing.assert_close(embeddings.mean.norm(dim=1), encoder.scale.expand(5))


def test_gaussian_means_can_have_lengths_of_their_own(tiny, pixels):
    encoder = tiny(unit_means=False)
    lengths = encoder(pixels).mean.norm(dim=1)
    assert lengths.std() > 1e-4
    with torch.no_grad():
        encoder.log_scale.fill_(2.0)
    torch.testing.assert_close(encoder(pixels).mean.norm(dim=1), lengths * encoder.scale)


def test_the_trained_scale_can_be_left_out(tiny, pixels):
    encoder = tiny(mean_scale=False)
    assert encoder.scale is None
    torch.testing.assert_close(encoder(pixels).mean.norm(dim=1), torch.ones(5))


def test_the_variance_head_gives_one_over_kappa_on_the_sphere(tiny, pixels):
    encoder = tiny(family="von-mises-fisher")
    embeddings = encoder(pixels)
    assert isinstance(embeddings, VonMisesFisher) and encoder.scale is None
    torch.testing.assert_close(1 / embeddings.kappa, encoder.variance_head(log_map(encoder.features(pixels))))


def test_points_have_a_constant_variance_that_says_nothing(tiny, pixels):
    encoder = tiny(family="point")
    embeddings = encoder(pixels)
    assert embeddings.dim == 16 and not encoder.has_variance and encoder.variance_head is None
    assert torch.equal(embeddings.var, torch.full((5,), POINT_VAR))
    torch.testing.assert_close(embeddings.mean.norm(dim=1), torch.ones(5))


@pytest.mark.parametrize("family", ["gaussian", "von-mises-fisher"])
def test_gradients_reach_every_parameter(tiny, pixels, family):
    encoder = tiny(family=family)
    embeddings = encoder(pixels)
    (embeddings.mean[0].sum() + embeddings.spread.sum()).backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("value", [0.0, 1e4, -1e4])
def test_extreme_pixels_still_give_valid_embeddings(tiny, value):
    for family in ("gaussian", "von-mises-fisher", "point"):
        tiny(family=family)(torch.full((2, 3, 32, 32), value))


def test_a_seed_decides_all_weights_and_moves_no_other_randomness(tiny):
    before = torch.get_rng_state()
    first, again, other = tiny(seed=1), tiny(seed=1), tiny(seed=2)
    assert torch.equal(before, torch.get_rng_state())
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_the_fingerprint_follows_every_weight(tiny):
    encoder = tiny()
    seen = {encoder.fingerprint}
    for parameter in encoder.parameters():
        with torch.no_grad():
            parameter.view(-1)[-1] += 1e-3
        seen.add(encoder.fingerprint)
    assert len(seen) == 1 + len(list(encoder.parameters()))


def test_the_fingerprint_follows_the_preprocessing(tiny):
    preprocessing = Preprocessing(size=32)
    changes = [{}, {"size": 40}, {"resize": "pad"}, {"mean": (0.4, 0.5, 0.5)}]
    seen = {tiny(preprocessing=replace(preprocessing, **change)).fingerprint for change in changes}
    assert len(seen) == len(changes)


@pytest.mark.parametrize("backbone", ["mobilenetv2_100", "resnet50_v1", "tiny"])
def test_dropout_in_a_backbone_that_has_none_is_refused(backbone):
    with pytest.raises(InvalidArgument, match="no dropout between its layers"):
        Encoder.create(EncoderConfig(backbone=backbone, dim=8, dropout=0.2))


def test_a_transformer_is_built_for_the_size_of_its_preprocessing():
    preprocessing = Preprocessing(size=64)
    config = EncoderConfig(backbone="vit_tiny_patch16_224", dim=8, preprocessing=preprocessing)
    encoder = Encoder.create(config)
    assert len(encoder(torch.rand(2, 3, 64, 64))) == 2
