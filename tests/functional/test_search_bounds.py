"""The bound that lets a search stop: never broken by any gallery, reached by some."""

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sampling import Draw

import surefind as sf
from surefind.functional import (
    asking_vectors,
    other_bound,
    ranking_keys,
    squared_distances,
    stored_vectors,
)

RANKINGS = ("expected", "mean")
RANGES = [(1e-12, 1e-12), (1e-6, 1e-3), (1e-3, 1e3), (1e-9, 1e8), (0.3, 0.3)]


def keys_of(query: sf.Embeddings, gallery: sf.Embeddings, ranking: str) -> NDArray[np.float64]:
    var = gallery.spread if gallery.family == "gaussian" else 1 / gallery.spread
    means = gallery.mean.numpy()[None].repeat(len(query), 0)
    wide = var.numpy()[None].repeat(len(query), 0)
    return ranking_keys(query.mean.numpy(), means, wide, family=query.family, ranking=ranking)


def random_gallery(
    draw: Draw, family: str, dim: int, low: float, high: float
) -> tuple[sf.Embeddings, sf.Embeddings]:
    """Queries and a gallery with variances all over the range, some means alike or opposite."""
    query, gallery = getattr(draw, family)(6, dim), getattr(draw, family)(80, dim)
    mean = torch.cat([gallery.mean, query.mean, -query.mean])
    share = torch.rand(len(mean), generator=draw.generator, dtype=torch.float64)
    share[:2] = torch.tensor([0.0, 1.0])
    var = (low * (high / low) ** share).clamp(low, high)
    return query, gallery.replace(mean, var if family == "gaussians" else 1 / var)


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("native", RANKINGS)
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_no_gallery_breaks_the_bound(family: str, native: str, low: float, high: float, draw: Draw):
    other = RANKINGS[native == "expected"]
    for dim in (2, 16):
        query, gallery = random_gallery(draw, family, dim, low, high)
        known, wanted = (keys_of(query, gallery, ranking) for ranking in (native, other))
        order = known.argsort(axis=1)
        known, wanted = (np.take_along_axis(x, order, axis=1) for x in (known, wanted))
        least = np.minimum.accumulate(wanted[:, ::-1], axis=1)[:, ::-1]  # of all from here on
        bound = other_bound(
            known, native=native, family=query.family, dim=dim, var_range=(low, high)
        )
        assert (bound <= least + 1e-9 * (1 + np.abs(least))).all()


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("native", RANKINGS)
def test_some_gallery_reaches_the_bound(family: str, native: str):
    """Points all around the circle with either of two variances: one of them comes close to it."""
    low, high = 0.05, 0.4
    angle = torch.linspace(0, torch.pi, 20_001, dtype=torch.float64)
    mean = torch.stack([angle.cos(), angle.sin()], dim=1).repeat(2, 1)
    var = torch.tensor([low, high], dtype=torch.float64).repeat_interleave(len(angle))
    make = sf.Gaussians if family == "gaussians" else sf.VonMisesFisher
    gallery = make(mean, var if family == "gaussians" else 1 / var)
    known, wanted = (
        keys_of(gallery[0], gallery, ranking)[0]
        for ranking in (native, RANKINGS[native == "expected"])
    )
    for unseen in np.linspace(known.min(), known.max(), 13)[:-1]:
        least = wanted[known >= unseen].min()
        bound = other_bound(
            np.array([unseen]), native=native, family=gallery.family, dim=2, var_range=(low, high)
        )
        assert bound.item() == pytest.approx(least, abs=2e-3)
        assert bound.item() <= least + 1e-9


@pytest.mark.parametrize("family", ["gaussian", "von-mises-fisher"])
@pytest.mark.parametrize("native", RANKINGS)
def test_the_bound_grows_with_what_has_been_seen_and_narrower_ranges(family: str, native: str):
    unseen = np.linspace(0, 4, 50)
    bound = lambda low, high: other_bound(
        unseen, native=native, family=family, dim=8, var_range=(low, high)
    )
    assert (np.diff(bound(0.01, 0.2)) >= 0).all()
    assert (bound(0.05, 0.1) >= bound(0.01, 0.2)).all()
    assert (bound(0.05, 0.1) > bound(0.01, 0.2)).any()


@pytest.mark.parametrize("family", ["gaussian", "von-mises-fisher"])
@pytest.mark.parametrize("native", RANKINGS)
def test_where_nothing_is_unseen_the_bound_is_infinite(family: str, native: str):
    bound = lambda unseen, var_range: other_bound(
        np.array([unseen]), native=native, family=family, dim=8, var_range=var_range
    )
    assert bound(np.inf, (0.1, 0.2)).item() == np.inf
    assert bound(1.0, (np.inf, 0.0)).item() == np.inf


@pytest.mark.parametrize("family", ["gaussians", "spheres"])
@pytest.mark.parametrize("dim", [2, 64])
def test_keys_are_what_an_engine_ranks_by(family: str, dim: int, draw: Draw):
    query, gallery = getattr(draw, family)(5, dim), getattr(draw, family)(30, dim)
    by_engine = {
        "mean": squared_distances(query.mean, gallery.mean),
        "expected": squared_distances(asking_vectors(query), stored_vectors(gallery)),
    }
    for ranking, wanted in by_engine.items():
        np.testing.assert_allclose(
            keys_of(query, gallery, ranking), wanted.numpy(), rtol=1e-9, atol=1e-12
        )


def test_keys_agree_with_a_plain_loop(draw: Draw):
    query, gallery = draw.gaussians(2, 4), draw.gaussians(3, 4)
    ours = {ranking: keys_of(query, gallery, ranking) for ranking in RANKINGS}
    for i, j in itertools.product(range(2), range(3)):
        rows = query.mean[i].tolist(), gallery.mean[j].tolist()
        between = sum((a - b) ** 2 for a, b in zip(*rows, strict=True))
        assert ours["mean"][i, j] == pytest.approx(between)
        assert ours["expected"][i, j] == pytest.approx(between + 4 * gallery.var[j].item())


def test_keys_of_close_vectors_in_single_precision_keep_their_digits(draw: Draw):
    near = (50 + 1e-4 * draw.gaussians(3, 32).mean).float().numpy()
    ours = ranking_keys(
        near[:1].astype(np.float64),
        near[None, 1:],
        np.full((1, 2), 1e-8),
        family="gaussian",
        ranking="mean",
    )
    wide = near.astype(np.float64)
    np.testing.assert_allclose(ours[0], ((wide[0] - wide[1:]) ** 2).sum(1), rtol=1e-12)
    assert ours.dtype == np.float64


def test_columns_where_nothing_was_found_do_no_harm():
    """An engine leaves them as they are, with a variance of 0."""
    ours = ranking_keys(
        np.eye(2),
        np.zeros((2, 1, 2), np.float32),
        np.zeros((2, 1)),
        family="von-mises-fisher",
        ranking="expected",
    )
    assert ours.shape == (2, 1)


def test_bad_names_are_refused():
    for wrong in ({"native": "means"}, {"family": "gauss"}):
        arguments = {"native": "mean", "family": "gaussian", **wrong}
        with pytest.raises(sf.InvalidArgument, match="did you mean"):
            other_bound(np.zeros(1), dim=2, var_range=(0.1, 0.2), **arguments)
