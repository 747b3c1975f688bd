"""The version that is served, what takes its place, and what is told of one that cannot."""

import pytest
from clusters import cluster_index, clusters

from surefind.errors import SurefindError
from surefind.search.index import Index
from surefind.serve.shelf import Shelf


@pytest.fixture
def folder(tmp_path):
    cluster_index(tmp_path / "index", *clusters(classes=4, per_class=5)).close()
    return tmp_path / "index"


@pytest.fixture
def shelf(folder):
    made = Shelf(Index.open(folder))
    yield made
    made.now.index.close()


def add(folder, name):
    with Index.open(folder) as index:
        embeddings, _ = clusters(classes=1, per_class=1)
        index.add_embeddings(embeddings, [name])


def test_what_is_shown_at_first_is_the_index_itself(shelf):
    assert (shelf.now.images, shelf.now.version, shelf.now.trouble) == (20, 1, None)
    assert shelf.reloads == 0


def test_nothing_is_taken_while_nothing_changed(shelf):
    before = shelf.now
    assert not shelf.look()
    assert shelf.now is before and shelf.reloads == 0


def test_a_newer_version_takes_the_place_and_the_older_goes_on_answering(shelf, folder):
    before = shelf.now
    add(folder, "new")
    assert shelf.look()
    assert (shelf.now.images, shelf.now.version, shelf.reloads) == (21, 2, 1)
    assert (before.images, len(before.index), len(shelf.now.index)) == (20, 20, 21)
    assert not len(before.index.items(["new"])) and len(shelf.now.index.items(["new"]))


@pytest.mark.parametrize(
    "error", [SurefindError("it is broken", fix="mend it"), OSError(5, "it is broken")]
)
def test_trouble_is_told_and_forgotten_when_it_is_over(shelf, monkeypatch, error, caplog):
    def fail(self):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(Index, "newest", fail)
        assert not shelf.look() and not shelf.look()
    assert "it is broken" in shelf.now.trouble and shelf.now.images == 20
    assert caplog.text.count("cannot be served") == 1  # said once, not at every look
    assert not shelf.look()
    assert shelf.now.trouble is None


def test_trouble_is_forgotten_with_the_version_that_comes_after_it(shelf, folder, monkeypatch):
    def fail(self):
        raise SurefindError("it is broken", fix="mend it")

    with monkeypatch.context() as broken:
        broken.setattr(Index, "newest", fail)
        shelf.look()
    add(folder, "new")
    assert shelf.look() and shelf.now.trouble is None


def test_a_calibration_alone_is_a_newer_version(shelf, folder):
    with Index.open(folder) as index:
        embeddings, labels = clusters(classes=24, per_class=6, seed=1)
        index.add_embeddings(embeddings, [f"c{n}" for n in range(len(labels))],
                             metadata=[{"label": label} for label in labels])  # fmt: skip
    assert shelf.look() and shelf.now.index.calibration is None
    with Index.open(folder) as index:
        index.calibrate(learn_doubt=False)
    assert shelf.look() and shelf.now.index.calibration is not None
    assert shelf.reloads == 2
