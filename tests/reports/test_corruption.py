"""Corrupted queries, against a plain loop over them."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import spearmanr

from surefind.embeddings import Embeddings, Gaussians
from surefind.encoders.image_encoder import ImageEncoder
from surefind.images.catalog import Catalog
from surefind.images.corruptions import KINDS, LEVELS, corrupt
from surefind.images.preprocess import Preprocessing
from surefind.reports.corruption import (
    CorruptedResult,
    corruption_ladder,
    mean_rank_correlation,
    n_encoded,
)
from surefind.reports.result import Rung


class Contrast(ImageEncoder):
    """The mean colour as mean, and a variance that rises as neighbouring pixels differ less."""

    preprocessing = Preprocessing(size=24, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    device = torch.device("cpu")
    fingerprint = "contrast"
    has_variance = True

    def embed_pixels(self, pixels: torch.Tensor) -> Gaussians:
        steps = (pixels[..., 1:] - pixels[..., :-1]).abs().mean((1, 2, 3))
        return Gaussians(pixels.mean((2, 3)), 1 / (0.01 + steps))

    def empty(self) -> Gaussians:
        return Gaussians(torch.empty(0, 3), torch.empty(0))

    def evaluating(self) -> nullcontext[None]:
        return nullcontext()


def search(queries: Embeddings, rows: np.ndarray) -> CorruptedResult:
    """A query is right while its variance is small, and even rows are surer than odd ones."""
    var = queries.spread.double().numpy()
    return CorruptedResult(correct=var < 15, signals={"query_var": var, "odd_var": var + rows % 2})


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    random = np.random.default_rng(0)
    names = [f"{row}.png" for row in range(9)]
    for name in names:
        pixels = random.integers(0, 256, (12, 18, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((54, 36)).save(tmp_path / name)
    return Catalog(tmp_path, tuple(names))


def test_every_rung_agrees_with_a_plain_loop(catalog: Catalog):
    rows = np.array([1, 2, 3, 6, 8])
    ladder = corruption_ladder(Contrast(), catalog, rows=rows, search=search, seed=5)
    expected = []
    for kind in KINDS:
        for level in range(LEVELS + 1):
            answers = []
            for row in rows:
                image = Image.open(catalog.file(row)).convert("RGB")
                image = corrupt(image, kind, level, seed=(5, int(row)))
                answers.append(search(Contrast().encode([image]), np.array([row])))
            medians = {
                name: np.median([answer.signals[name][0] for answer in answers])
                for name in ("query_var", "odd_var")
            }
            recall = np.mean([answer.correct[0] for answer in answers])
            expected.append(Rung(kind, level, float(recall), medians))
    for rung, naive in zip(ladder.rungs, expected, strict=True):
        assert (rung.kind, rung.level, rung.recall) == (naive.kind, naive.level, naive.recall)
        assert rung.signals == pytest.approx(naive.signals, rel=1e-5)


def test_uncertainty_that_follows_contrast_rises_with_blur_and_falls_with_noise(catalog: Catalog):
    ladder = corruption_ladder(Contrast(), catalog, rows=np.array([0, 1, 2, 3]), search=search)
    assert ladder.spearman["blur"]["query_var"] == pytest.approx(1)
    assert ladder.spearman["noise"]["query_var"] < 0
    assert set(ladder.spearman) == set(KINDS)


def test_progress_ends_at_the_number_of_encoded_images(catalog: Catalog):
    seen: list[int] = []
    corruption_ladder(
        Contrast(), catalog, rows=np.array([0, 1, 4]), search=search, progress=seen.append
    )
    assert seen == sorted(seen)
    assert seen[-1] == n_encoded(3) == 63


def test_the_rank_correlation_agrees_with_scipy_query_by_query():
    uncertainty = np.random.default_rng(0).integers(0, 5, (6, 40)).astype(float)  # with ties
    naive = [spearmanr(range(6), query).statistic for query in uncertainty.T]
    assert mean_rank_correlation(uncertainty) == pytest.approx(np.mean(naive))
