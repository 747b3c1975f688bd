"""The version that is served, what takes its place, and what is told of one that cannot."""

import pytest
from clusters import cluster_index, clusters

from surefind.errors import SurefindError
from surefind.search.index import Index
from surefind.serve.service import LiveIndex


@pytest.fixture
def folder(tmp_path):
    cluster_index(tmp_path / "index", *clusters(classes=4, per_class=5)).close()
    return tmp_path / "index"


@pytest.fixture
def live(folder):
    made = LiveIndex(Index.open(folder))
    yield made
    made.current.index.close()


def add(folder, name):
    with Index.open(folder) as index:
        embeddings, _ = clusters(classes=1, per_class=1)
        index.add_embeddings(embeddings, [name])


def test_nothing_is_taken_while_nothing_changed(live):
    before = live.current
    assert (before.images, before.version, before.reload_error) == (20, 1, None)
    assert not live.reload_if_newer()
    assert live.current == before and live.reloads == 0


def test_a_newer_version_takes_the_place_and_the_older_goes_on_answering(live, folder):
    before = live.current
    add(folder, "new")
    assert live.reload_if_newer()
    assert (live.current.images, live.current.version, live.reloads) == (21, 2, 1)
    assert (before.images, len(before.index), len(live.current.index)) == (20, 20, 21)
    assert not len(before.index.items(["new"])) and len(live.current.index.items(["new"]))


@pytest.mark.parametrize(
    "error", [SurefindError("it is broken", fix="mend it"), OSError(5, "it is broken")]
)
def test_reload_error_is_told_and_forgotten_when_it_is_over(live, monkeypatch, error, caplog):
    def fail(self):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(Index, "newest", fail)
        assert not live.reload_if_newer() and not live.reload_if_newer()
    assert "it is broken" in live.current.reload_error and live.current.images == 20
    assert caplog.text.count("cannot be served") == 1  # said once, not at every look
    assert not live.reload_if_newer()
    assert live.current.reload_error is None
