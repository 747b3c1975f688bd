"""Images of the index as queries."""

import shutil
from pathlib import Path

import pytest
import torch
from clusters import SPACE, cluster_index, rows_of, thirds
from galleries import FAMILIES, random_embeddings

from surefind.confidence.conformal import VERDICTS
from surefind.embeddings import Embeddings, Gaussians, VonMisesFisher
from surefind.engines.base import Space
from surefind.search.hits import SearchResult
from surefind.search.index import Index
from surefind.search.query import UnknownItem

(GALLERY, LABELS), (KNOWN, KNOWN_LABELS), _ = thirds(classes=12, seed=3)
RANKINGS = ("mean", "expected")
SOME = (0, 5, 77, 143)


def vectors(space: Space, embeddings: Embeddings, folder: Path, *, but: str = "") -> Index:
    """An index of embeddings, perhaps without one of them."""
    index = Index.create_empty(folder, space, fingerprint="x", kind="flat")
    index.add_embeddings(embeddings, [f"row-{n}" for n in range(len(embeddings))])
    index.remove([but])
    return index


def assert_same_hits(got: SearchResult, want: SearchResult) -> None:
    assert [hit.id for hit in got.hits] == [hit.id for hit in want.hits]
    for column in ("distance", "expected_distance", "std", "var"):
        values = [[getattr(hit, column) for hit in one.hits] for one in (got, want)]
        assert values[0] == pytest.approx(values[1], rel=1e-6), column


def assert_same_judgement(got: SearchResult, want: SearchResult) -> None:
    sure = [[hit.confidence for hit in one.hits[:20]] for one in (got, want)]
    assert sure[0] == pytest.approx(sure[1], abs=1e-6)
    assert got.confidence == pytest.approx(want.confidence, abs=1e-6)
    assert got.novelty_p_value == pytest.approx(want.novelty_p_value, abs=1e-6)
    assert (got.verdict, got.show) == (want.verdict, want.show)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "index"
    with cluster_index(folder, GALLERY, LABELS) as index:
        index.calibrate(KNOWN, labels=KNOWN_LABELS, use_labels=False)
    return folder


@pytest.fixture
def index(made, tmp_path) -> Index:
    return Index.open(shutil.copytree(made, tmp_path / "index"))


# hits


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("native", RANKINGS)
@pytest.mark.parametrize("asked", RANKINGS)
def test_an_image_finds_what_it_finds_in_an_index_without_it(tmp_path, family, native, asked):
    space = Space(family, 8, native)
    embeddings = random_embeddings(30, 8, 0, family=family, spread=1.5)
    whole = vectors(space, embeddings, tmp_path / "whole")
    for row in (0, 29):
        name = f"row-{row}"
        lacking = vectors(space, embeddings, tmp_path / name, but=name)
        for k in (1, 5, 29, 10**9):
            got = whole.neighbours(name, k, ranking=asked)
            (want,) = lacking.search(whole.items([name]).embeddings, k, ranking=asked)
            assert len(got.hits) == min(k, 29)
            assert_same_hits(got, want)
            assert (got.query, got.ranking) == (name, asked)
            assert got.query_var == pytest.approx(want.query_var)


@pytest.mark.parametrize("label", ["class 0", "class 5"])
def test_conditions_choose_among_the_others(index, label):
    """The image itself satisfies them, or does not."""
    others = [f"row-{n}" for n in range(1, len(LABELS)) if LABELS[n] == label]
    result = index.neighbours("row-0", k=50, where=f"label={label}")
    assert sorted(hit.id for hit in result.hits) == sorted(others)
    assert "for plain searches" in result.uncalibrated


def test_copies_of_an_image_are_hits_however_many_there_are(tmp_path):
    mean = torch.ones(30, 4)
    space = Space("gaussian", 4, "mean")
    index = vectors(space, Gaussians(mean, torch.full((30,), 0.1)), tmp_path / "index")
    for k in (1, 5, 29, 40):
        result = index.neighbours("row-3", k)
        names = {hit.id for hit in result.hits}
        assert len(names) == len(result.hits) == min(k, 29) and "row-3" not in names
        assert all(hit.distance == 0 for hit in result.hits)


def test_an_image_that_is_alone_finds_nothing(tmp_path):
    index = vectors(SPACE, GALLERY[:1], tmp_path / "index")
    assert index.neighbours("row-0").hits == ()


@pytest.mark.parametrize("name", ["nobody", "", "x" * 5000, "\0", "../row-1", "\udcff"])
def test_an_id_that_nobody_has_is_one_clear_error(index, name):
    with pytest.raises(UnknownItem, match="no image of the index has the id"):
        index.neighbours(name)


# how sure they are


@pytest.mark.parametrize(("row", "k"), [(0, 1), (77, 5), (143, 40)])
def test_it_is_judged_as_if_it_were_not_in_the_index(index, tmp_path, row, k):
    name = f"row-{row}"
    with index.snapshot(tmp_path / "without") as lacking:
        lacking.remove([name])
        lacking.adopt(index.calibrated)  # the neighbourhoods are those without the image
        (want,) = lacking.search(GALLERY[row], k)
        got = index.neighbours(name, k)
    assert_same_hits(got, want)
    assert_same_judgement(got, want)
    assert got.verdict in VERDICTS and got.uncalibrated is None


def test_on_the_sphere_it_is_judged_so_too(tmp_path):
    def sphere(gaussians: Gaussians) -> VonMisesFisher:
        """Small regions around the pole keep the clusters apart."""
        mean = torch.nn.functional.pad(gaussians.mean / 50, (0, 1), value=1.0)
        return VonMisesFisher(torch.nn.functional.normalize(mean, dim=1), 1 / gaussians.var)

    space = Space("von-mises-fisher", 7, "mean")
    index = Index.create_empty(tmp_path / "whole", space, fingerprint="x", kind="flat")
    rows = rows_of(GALLERY, LABELS)
    index.add_embeddings(sphere(GALLERY), rows.ids, metadata=rows.metadata)
    index.calibrate(sphere(KNOWN), labels=KNOWN_LABELS, use_labels=False, learn_variance=False)
    for row in SOME:
        lacking = index.snapshot(tmp_path / str(row))
        lacking.remove([f"row-{row}"])
        lacking.adopt(index.calibrated)
        got = index.neighbours(f"row-{row}")
        (want,) = lacking.search(index.items([f"row-{row}"]).embeddings)
        assert_same_hits(got, want)
        assert_same_judgement(got, want)


def test_an_image_that_came_after_the_calibration_is_judged_so_too(index, tmp_path):
    (late,) = rows_of(KNOWN[:1], ["class 0"], prefix="late").ids
    (want,) = index.search(KNOWN[:1])
    index.add_embeddings(KNOWN[:1], [late])
    got = index.neighbours(late)
    assert_same_hits(got, want)
    assert_same_judgement(got, want)
