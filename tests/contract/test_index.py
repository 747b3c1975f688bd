"""An index of pictures on every engine: the same answers, and one clear error each."""

import pytest
from class_folders import write_pictures
from galleries import random_embeddings

import surefind as sf
from surefind.engines.base import Space
from surefind.engines.registry import without_password
from surefind.search.index import Index


@pytest.fixture(scope="module")
def encoder() -> sf.Encoder:
    return sf.Encoder.create(sf.EncoderConfig(backbone="tiny", dim=16), seed=1).eval()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("photos"), classes=4, per_class=5)


@pytest.fixture
def index(tmp_path, encoder, photos, engine):
    with Index.create(tmp_path / "index", encoder, photos, engine=engine, kind="flat", calibrate=False) as made:
        yield made


def test_hits_are_those_of_the_embedded_engine(index, tmp_path, encoder, photos):
    with Index.create(tmp_path / "local", encoder, photos, kind="flat", calibrate=False) as local:
        for ranking in ("expected", "mean"):
            for where in (None, "label=class01", ["var<0.1", "label != class02"]):
                query = sorted(photos.rglob("*.png"))[7]
                asked = {"k": 6, "ranking": ranking, "where": where, "radius": 1.0}
                got, want = index.search(query, **asked), local.search(query, **asked)
                assert [hit.id for hit in got.hits] == [hit.id for hit in want.hits]
                for one, other in zip(got.hits, want.hits, strict=True):
                    assert one.expected_distance == pytest.approx(other.expected_distance)
                    assert one.metadata == other.metadata


def test_it_opens_again_and_goes_on(index, tmp_path, encoder, photos, engine):
    assert index.remove(["class00/0.png"]) == 1
    with Index.open(tmp_path / "index", engine=engine if "://" in engine else None) as again:
        assert len(again) == 19
        assert again.add(photos).added == 1
        assert again.fingerprint == encoder.fingerprint
        assert again.verify() == []
        again.compact()
        assert len(again.search(next(photos.rglob("*.png")), k=100).hits) == 20


def test_the_folder_keeps_no_password(index, tmp_path, engine):
    written = (tmp_path / "index" / "index.json").read_text()
    assert without_password(engine) in written
    if without_password(engine) != engine:
        assert engine not in written


def test_a_second_folder_joins_the_same_place_only_with_the_same_model(index, tmp_path, encoder, engine):
    if engine == "faiss":
        pytest.skip("a folder is its own place")
    with Index.create(tmp_path / "second", encoder, engine=engine, kind="flat") as second:
        assert len(second) == 20
    other = sf.Encoder.create(sf.EncoderConfig(backbone="tiny", dim=16), seed=2)
    with pytest.raises(sf.InvalidArgument, match="made with another"):
        Index.create(tmp_path / "third", other, engine=engine, kind="flat")


def test_a_snapshot_lives_in_a_folder(index, tmp_path, photos):
    with index.snapshot(tmp_path / "copy") as copy:
        assert len(copy) == 20
    with Index.open(tmp_path / "copy") as local:
        assert local.describe()["engine"] == "faiss"
        assert local.search(next(photos.rglob("*.png"))).hits


def test_more_hits_than_the_engine_can_return_are_refused(tmp_path, monkeypatch):
    gallery, query = random_embeddings(30, 8, 0), random_embeddings(2, 8, 1)
    with Index.create_empty(tmp_path / "index", Space("gaussian", 8), fingerprint="x") as index:
        ids = [str(n) for n in range(30)]
        index.add_embeddings(gallery, ids, metadata=[{"half": n % 2} for n in range(30)])
        monkeypatch.setattr(type(index._engine), "max_k", 20)
        refused = "at most 20, the limit of this index's engine, got 21"
        for ranking in ("mean", "expected"):
            for ask in (index.search, index.nearest, index.search_views):
                with pytest.raises(sf.InvalidArgument, match=f"k: expected {refused}"):
                    ask(query, 21, ranking=ranking)
            with pytest.raises(sf.InvalidArgument, match=f"expand: expected {refused}"):
                index.search(query, 5, expand=21, ranking=ranking)
            with pytest.raises(sf.InvalidArgument, match="k: expected at most 19, .* got 20"):
                index.neighbours("3", 20, ranking=ranking)
            assert [len(one.hits) for one in index.search(query, 20, ranking=ranking)] == [20, 20]
            assert len(index.neighbours("3", 19, ranking=ranking).hits) == 19
            half = index.search(query, 10**9, ranking=ranking, where="half=1")
            assert [len(one.hits) for one in half] == [15, 15]
