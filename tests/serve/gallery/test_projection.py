"""Embeddings on a plane: near stays near, and nothing that a gallery may hold breaks it."""

import numpy as np
import pytest

from surefind.serve.gallery import projection as module
from surefind.serve.gallery.projection import method_of, project


def clusters(count: int, *, of: int = 4, dim: int = 20, seed: int = 0):
    random = np.random.default_rng(seed)
    labels = np.arange(count) % of
    centres = 10 * random.normal(size=(of, dim))
    return (centres[labels] + random.normal(size=(count, dim))).astype(np.float32), labels


def purity(positions, labels) -> float:
    """Share of images whose nearest on the plane has the same label."""
    apart = np.square(positions[:, None] - positions).sum(axis=-1)
    np.fill_diagonal(apart, np.inf)
    return float((labels[apart.argmin(axis=1)] == labels).mean())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 9, 10, 11, 40])
def test_any_number_of_images_lies_in_the_unit_square(count):
    positions = project(clusters(count)[0])
    assert positions.shape == (count, 2)
    assert positions.dtype == np.float32
    assert ((positions >= 0) & (positions <= 1)).all()


@pytest.mark.parametrize("count", [8, 60])
def test_images_that_are_alike_lie_near_each_other(count):
    means, labels = clusters(count)
    assert purity(project(means), labels) == 1.0


def test_the_longer_axis_fills_the_square():
    positions = project(clusters(60)[0])
    assert np.ptp(positions, axis=0).max() == pytest.approx(1, abs=1e-6)


def test_both_axes_have_one_scale():
    means = np.array([[0, 0], [4, 0], [0, 1], [4, 1]], dtype=np.float32)
    assert sorted(np.ptp(project(means), axis=0)) == pytest.approx([0.25, 1])


def test_few_images_lie_as_their_principal_components_say():
    means, _ = clusters(9, dim=5)
    apart = means - means.mean(axis=0)
    left, sizes, _ = np.linalg.svd(apart.astype(np.float64), full_matrices=False)
    expected, found = left[:, :2] * sizes[:2], project(means).astype(np.float64)
    found = (found - found.mean(axis=0)) * np.ptp(expected, axis=0).max()
    assert np.abs(found) == pytest.approx(np.abs(expected), abs=1e-4)


def test_two_images_lie_at_the_ends():
    positions = project(np.array([[0, 1, 2], [3, 4, 5]], dtype=np.float32))
    assert sorted(positions[:, 0]) == [0, 1]
    assert positions[:, 1] == pytest.approx(0.5)


def test_images_that_are_all_the_same_lie_in_the_middle():
    assert (project(np.ones((30, 4), dtype=np.float32)) == 0.5).all()


@pytest.mark.parametrize(
    "means",
    [
        np.repeat(clusters(4)[0], 25, axis=0),
        np.concatenate([np.zeros((50, 3)), np.ones((1, 3))]),
        np.pad(clusters(30)[0], [(0, 0), (3, 3)]),
        clusters(30, dim=1)[0],
        clusters(30, dim=600)[0],
        1e25 * clusters(30)[0],
        1e-25 * clusters(30)[0],
    ],
    ids=["duplicates", "one apart", "constant columns", "one dimension", "wide", "huge", "small"],
)
def test_no_gallery_breaks_it(means):
    positions = project(means.astype(np.float32))
    assert np.isfinite(positions).all()
    assert np.ptp(positions, axis=0).max() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("factor", [2.0**-80, 2.0**80])
def test_positions_do_not_depend_on_the_unit_of_the_embeddings(factor):
    means, _ = clusters(30)
    scaled = means * np.float32(factor)
    assert np.array_equal(project(scaled), project(means))


def test_equal_input_gives_equal_output():
    means, _ = clusters(50)
    assert np.array_equal(project(means, seed=1), project(means, seed=1))


def test_one_core_is_used_and_the_limit_ends_with_the_work(monkeypatch):
    import sklearn.manifold
    from threadpoolctl import threadpool_info, threadpool_limits

    seen = []

    class Watched(sklearn.manifold.TSNE):
        def fit_transform(self, means):
            seen.append(threads())
            return super().fit_transform(means)

    def threads() -> set[int]:
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp"}

    monkeypatch.setattr(sklearn.manifold, "TSNE", Watched)
    with threadpool_limits(2, user_api="openmp"):
        project(clusters(20)[0])
        assert (seen, threads()) == ([{1}], {2})


def test_it_is_said_how_positions_were_found(monkeypatch):
    asked = []
    monkeypatch.setattr(module, "_tsne", lambda plain, *, seed: asked.append(1) or plain[:, :2])
    for count in (9, 10):
        asked.clear()
        project(clusters(count)[0])
        assert method_of(count) == ("t-SNE" if asked else "PCA")
