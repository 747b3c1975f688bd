"""From pictures to hits: create, open, add, remove, search, and what is refused."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from class_folders import write_pictures
from galleries import random_embeddings
from PIL import Image

import surefind as sf
from surefind.encoders.config import EncoderConfig
from surefind.engines.base import Space
from surefind.engines.filters import Where
from surefind.images.loader import TooManyRejected
from surefind.search import ingest
from surefind.search.index import Index
from surefind.storage import dump_checksummed_json

CONFIG = EncoderConfig(backbone="tiny", dim=16)


@pytest.fixture(scope="module")
def encoder() -> sf.Encoder:
    return sf.Encoder.create(CONFIG, seed=1).eval()


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    write_pictures(folder, classes=4, per_class=5, seed=0)
    return folder


@pytest.fixture
def index(tmp_path, encoder, photos) -> Index:
    return Index.create(tmp_path / "index", encoder, photos, calibrate=False)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_picture_finds_itself_first(index, photos):
    picture = files(photos)[7]
    result = index.search(picture, k=3)
    assert result.hits[0].path == str(picture)
    assert result.hits[0].id == picture.relative_to(photos).as_posix()
    assert result.hits[0].distance == pytest.approx(0, abs=1e-6)
    assert result.hits[0].metadata["label"] == picture.parent.name
    assert len(result.hits) == 3
    assert result.query == str(picture)


def test_every_form_of_a_query_gives_the_same_hits(index, photos):
    picture = files(photos)[3]
    forms = [picture, str(picture), picture.read_bytes(), Image.open(picture)]
    wanted = [hit.id for hit in index.search(picture, k=4).hits]
    for form in forms:
        assert [hit.id for hit in index.search(form, k=4).hits] == wanted
    embedded = index.search(index.encoder.encode([picture]), k=4)
    assert [hit.id for hit in embedded[0].hits] == wanted


def test_several_queries_give_as_many_results_and_may_share_hits(index, photos):
    some = [*files(photos)[:3], files(photos)[0]]
    results = index.search(some, k=20)
    assert [result.hits[0].path for result in results] == [str(path) for path in some]
    assert results[0].hits == results[3].hits
    near = index.nearest(index.encoder.encode(some), 20)
    assert index.ids(near) == [[hit.id for hit in result.hits] for result in results]


def test_hits_carry_what_the_formulas_say(index, photos):
    picture = files(photos)[0]
    result = index.search(picture, k=2, radius=1.0)
    query = index.encoder.encode([picture])
    found = index.encoder.encode([hit.path for hit in result.hits])
    expected = sf.functional.expected_distance(query, found)[0]
    spread = sf.functional.distance_variance(query, found)[0].sqrt()
    within = sf.functional.match_probability(query, found, 1.0)[0]
    for place, hit in enumerate(result.hits):
        assert hit.expected_distance == pytest.approx(float(expected[place]), rel=1e-4)
        assert hit.std == pytest.approx(float(spread[place]), rel=1e-4)
        assert hit.p_within == pytest.approx(float(within[place]), abs=1e-4)
        assert hit.var == pytest.approx(float(found.var[place]), rel=1e-5)
        assert hit.confidence is None
    assert result.query_var == pytest.approx(float(query.var[0]), rel=1e-5)
    assert result.verdict is None
    json.dumps(result.as_dict())


def test_a_search_in_the_other_ranking_says_that_it_re_ranked(index, photos):
    picture = files(photos)[0]
    assert not index.search(picture).reranked
    result = index.search(picture, k=20, ranking="expected")
    assert result.reranked
    expected = [hit.expected_distance for hit in result.hits]
    assert expected == sorted(expected)


def test_an_index_opens_with_its_model_and_answers_alike(index, photos, tmp_path):
    picture = files(photos)[2]
    again = Index.open(tmp_path / "index")
    facts = json.loads(json.dumps(again.describe()))
    assert (facts["images"], facts["dim"], facts["engine"]) == (20, index.space.dim, "faiss")
    assert again.search(picture).as_dict() == index.search(picture).as_dict()
    assert len(again) == 20
    assert again.fingerprint == index.encoder.fingerprint


def test_conditions_choose_rows(index, photos):
    label = files(photos)[0].parent.name
    hits = index.search(files(photos)[10], k=20, where=f"label={label}").hits
    assert {hit.metadata["label"] for hit in hits} == {label}
    assert len(hits) == index.count(Where.parse([f"label={label}"])) == 5


@pytest.mark.parametrize("k", [0, -1, 2.5, "a", True, None])
def test_a_k_that_makes_no_sense_is_refused(index, photos, k):
    with pytest.raises(sf.InvalidArgument, match="k: expected a whole number of at least 1"):
        index.search(files(photos)[0], k=k)


@pytest.mark.parametrize("k", [20, 21, 10**9])
def test_a_k_beyond_the_index_gives_all_of_it(index, photos, k):
    hits = index.search(files(photos)[0], k=k).hits
    assert len({hit.id for hit in hits}) == 20


def test_an_empty_index_gives_no_hits(tmp_path, encoder, photos):
    index = Index.create(tmp_path / "empty", encoder)
    assert index.search(files(photos)[0], k=5).hits == ()
    assert index.search([], k=5) == []
    assert index.search(files(photos)[0], k=5, expand=3).hits == ()


def test_pictures_that_are_there_are_not_encoded_again(index, photos, monkeypatch):
    encoded = []
    original = index.encoder.encode_all
    monkeypatch.setattr(index.encoder, "encode_all", lambda some, **o: encoded.extend(some) or original(some, **o))
    report = index.add(photos)
    assert (report.added, report.known, encoded) == (0, 20, [])


def test_a_stopped_run_goes_on_where_it_was(tmp_path, encoder, photos, monkeypatch):
    monkeypatch.setattr(ingest, "CHUNK", 6)
    index = Index.create(tmp_path / "index", encoder)
    asked = iter([False, False, True])
    first = index.add(photos, should_stop=lambda: next(asked))
    assert (first.added, first.stopped, len(index)) == (12, True, 12)
    second = index.add(photos)
    assert (second.added, second.known, second.stopped, len(index)) == (8, 12, False, 20)


def test_duplicates_are_found_by_content(index, photos, tmp_path):
    original = files(photos)[4]
    copy = tmp_path / "copy.png"
    copy.write_bytes(original.read_bytes())
    report = index.add([copy, copy.read_bytes()], ids=["copy", "bytes"])
    name = original.relative_to(photos).as_posix()
    assert report.duplicates == (("copy", name), ("bytes", name))
    assert len(index) == 20
    assert index.add([copy], ids=["copy"], duplicates="keep").added == 1
    found = index.search(copy, k=2).hits
    assert {hit.id for hit in found} == {name, "copy"}


def test_a_changed_picture_is_replaced_only_when_asked(index, photos, tmp_path):
    other = tmp_path / "other.png"
    Image.new("RGB", (40, 40), "red").save(other)
    name = files(photos)[0].relative_to(photos).as_posix()
    with pytest.raises(sf.InvalidArgument, match="another content"):
        index.add([other], ids=[name])
    assert index.search(files(photos)[0], k=1).hits[0].distance == pytest.approx(0, abs=1e-6)
    report = index.add([other], ids=[name], replace=True)
    assert (report.added, report.replaced, len(index)) == (1, 1, 20)
    assert index.search(other, k=1).hits[0].id == name


@pytest.mark.parametrize("chunk", [1, 1024])
@pytest.mark.parametrize("name", ["class00/new name.png", "a new name.png"])
def test_a_renamed_picture_stays_when_another_takes_its_name(tmp_path, encoder, monkeypatch, chunk, name):
    """The old content is looked for under the old name, which is about to lose it."""
    monkeypatch.setattr(ingest, "CHUNK", chunk)
    folder = write_pictures(tmp_path / "photos", classes=2, per_class=3)
    index, old = Index.create(tmp_path / "index", encoder, folder), folder / "class00" / "1.png"
    old.rename(folder / name)
    Image.new("RGB", (20, 20), "red").save(old)
    pictures = files(folder)
    ids = [path.relative_to(folder).as_posix() for path in pictures]
    report = index.add(pictures, ids=ids, replace=True)
    assert (report.added, report.replaced, report.duplicates) == (2, 1, ())
    assert index.known(ids) == set(ids)
    assert index.search(folder / name, k=1).hits[0].id == name


def test_copies_of_a_picture_that_stays_are_left_out_beside_a_replaced_one(tmp_path, encoder):
    folder = write_pictures(tmp_path / "photos", classes=2, per_class=3)
    index = Index.create(tmp_path / "index", encoder, folder)
    copy = folder / "class01" / "copy.png"
    copy.write_bytes((folder / "class01" / "1.png").read_bytes())
    Image.new("RGB", (20, 20), "red").save(folder / "class00" / "0.png")
    report = index.add(folder, replace=True)
    assert report.duplicates == (("class01/copy.png", "class01/1.png"),)
    assert (report.replaced, len(index)) == (1, 6)


@pytest.mark.parametrize("count", [1, 3])
def test_as_many_metadata_as_pictures_or_an_error(index, photos, count):
    with pytest.raises(sf.InvalidArgument, match=f"metadata: expected 2, one per image, got {count}"):
        index.add(files(photos)[:2], metadata=[{"shop": "north"}] * count)


def test_unreadable_pictures_are_listed_and_the_rest_is_there(tmp_path, encoder):
    folder = tmp_path / "photos"
    write_pictures(folder, classes=10, per_class=10, seed=1)
    broken = files(folder)[17]
    broken.write_bytes(broken.read_bytes()[:60])
    index = Index.create(tmp_path / "index", encoder)
    report = index.add(folder)
    assert report.added == 99
    assert [bad.path for bad in report.rejected] == [str(broken)]
    assert report.rejected[0].row == 17


def test_too_many_unreadable_pictures_stop_it(tmp_path, encoder):
    folder = tmp_path / "photos"
    write_pictures(folder, classes=2, per_class=3, seed=1)
    files(folder)[0].write_bytes(b"nothing")
    index = Index.create(tmp_path / "index", encoder)
    with pytest.raises(TooManyRejected, match="1 of 6 images"):
        index.add(folder)
    assert len(index) == 0
    assert index.add(folder, max_bad_share=0.5).added == 5


def test_a_known_picture_whose_file_is_gone_is_unreadable_and_stays(tmp_path, encoder):
    folder = write_pictures(tmp_path / "photos", classes=1, per_class=3)
    index, some = Index.create(tmp_path / "index", encoder, folder), files(folder)
    some[1].unlink()
    ids = [f"class00/{path.name}" for path in some]
    report = index.add(some, ids=ids, replace=True, max_bad_share=1.0)
    assert (report.known, [bad.row for bad in report.rejected], len(index)) == (2, [1], 3)


def test_removed_pictures_are_gone(index, photos):
    picture = files(photos)[5]
    name = picture.relative_to(photos).as_posix()
    assert index.remove([name, "nobody"]) == 1
    assert name not in {hit.id for hit in index.search(picture, k=50).hits}
    assert len(index) == 19


def test_an_index_of_other_weights_is_refused(index, tmp_path):
    other = sf.Encoder.create(CONFIG, seed=2)
    with pytest.raises(sf.InvalidArgument, match="the one that made the index"):
        Index.open(tmp_path / "index", encoder=other)
    embeddings = random_embeddings(1, index.space.dim, 0)
    with pytest.raises(sf.InvalidArgument, match="the one that made the index"):
        index.add_embeddings(embeddings, ["x"], fingerprint=other.fingerprint)


def test_an_index_of_other_preprocessing_is_refused(index, tmp_path, encoder):
    from dataclasses import replace

    changed = replace(encoder.config, preprocessing=replace(encoder.preprocessing, size=encoder.preprocessing.size + 8))
    other = sf.Encoder.create(changed)
    other.load_state_dict(encoder.state_dict())
    with pytest.raises(sf.InvalidArgument, match="the one that made the index"):
        Index.open(tmp_path / "index", encoder=other)


def test_a_model_swapped_in_the_folder_is_refused(index, tmp_path):
    sf.Encoder.create(CONFIG, seed=2).save(tmp_path / "index" / "model")
    swapped = Index.open(tmp_path / "index")
    with pytest.raises(sf.InvalidArgument, match="the one that made the index"):
        swapped.search(Image.new("RGB", (32, 32)))
    assert len(swapped.verify()) == 1


def test_another_dimension_is_refused(index):
    with pytest.raises(sf.InvalidArgument, match="dimensions, as in the index"):
        index.search(random_embeddings(1, index.space.dim + 1, 0))
    with pytest.raises(sf.InvalidArgument, match="dimensions, as in the index"):
        index.add_embeddings(random_embeddings(1, 3, 0), ["x"])
    assert len(index) == 20


def test_numbers_that_are_not_finite_are_refused(index):
    for bad in (np.nan, np.inf, 1e30):
        mean = torch.zeros(1, index.space.dim)
        mean[0, 0] = bad
        with pytest.raises(sf.InvalidArgument, match="finite"):
            index.add_embeddings(sf.Gaussians(mean, torch.ones(1)), ["bad"])
    assert len(index) == 20


def test_embeddings_from_elsewhere_make_an_index(tmp_path):
    space = Space("von-mises-fisher", 8, "mean")
    index = Index.create_empty(tmp_path / "index", space, fingerprint="another library")
    gallery = random_embeddings(30, 8, 0, family=space.family)
    index.add_embeddings(gallery, [str(n) for n in range(30)])
    near = index.nearest(gallery[:4], 1)
    assert index.ids(near) == [["0"], ["1"], ["2"], ["3"]]
    with pytest.raises(sf.InvalidFile, match="no model"):
        index.search(np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(sf.InvalidArgument, match="another content"):
        index.add_embeddings(gallery[:1], ["7"])


def test_a_folder_that_holds_an_index_is_not_overwritten(index, tmp_path, encoder):
    with pytest.raises(sf.InvalidFile, match="holds an index already"):
        Index.create(tmp_path / "index", encoder)


def test_an_unfinished_creation_is_finished(index, tmp_path, encoder, photos):
    """Killed after the store was made, before the folder says that it is an index."""
    (tmp_path / "index" / "index.json").unlink()
    with pytest.raises(sf.InvalidFile, match="run it again"):
        Index.open(tmp_path / "index")
    again = Index.create(tmp_path / "index", encoder)
    assert len(again) == 20


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"schema": 1, "engine": "faiss", "checksum": "0"}', b"\xff"])
def test_a_damaged_description_is_one_clear_error(index, tmp_path, content):
    (tmp_path / "index" / "index.json").write_bytes(content)
    with pytest.raises(sf.InvalidFile, match=r"index.json (is damaged|was changed)"):
        Index.open(tmp_path / "index")


def test_an_index_of_the_first_release_is_refused_with_the_remedy(tmp_path: Path):
    (tmp_path / "index.json").write_bytes(dump_checksummed_json({"schema": 1, "engine": "faiss"}))
    with pytest.raises(sf.InvalidFile, match="surefind 0.1") as raised:
        Index.open(tmp_path)
    assert "surefind index IMAGES -o INDEX" in str(raised.value.fix)


def test_a_folder_without_an_index_says_so(tmp_path):
    with pytest.raises(sf.InvalidFile, match="holds no index"):
        Index.open(tmp_path)


def test_views_of_one_item_are_searched_as_one(index, photos):
    some = files(photos)[:3]
    result = index.search_views(some, k=4)
    fused = sf.functional.fuse(index.encoder.encode(some))
    assert result.query == "3 views"
    assert result.query_var == pytest.approx(float(fused.spread[0]))
    assert [hit.id for hit in result.hits] == [hit.id for hit in index.search(fused, 4)[0].hits]
    with pytest.raises(sf.InvalidArgument, match="at least one"):
        index.search_views([])


def test_expansion_asks_with_the_helped_query(index, photos):
    picture = files(photos)[0]
    query = index.encoder.encode([picture])
    around = index.encoder.encode([hit.path for hit in index.search(picture, k=3).hits])
    helped = sf.functional.expand(query, around)
    result = index.search(picture, k=5, expand=3)
    wanted = index.search(helped, k=5)[0]
    assert [hit.id for hit in result.hits] == [hit.id for hit in wanted.hits]
    assert result.query_var == pytest.approx(float(helped.spread[0]), rel=1e-4)


def test_a_snapshot_is_the_same_index_elsewhere(index, tmp_path, photos):
    copy = index.snapshot(tmp_path / "copy")
    index.remove([hit.id for hit in index.search(files(photos)[0], k=3).hits])
    assert len(copy) == 20
    again = Index.open(tmp_path / "copy")
    assert again.search(files(photos)[0]).hits[0].path == str(files(photos)[0])
    assert again.verify() == []


def test_verify_names_a_damaged_model(index, tmp_path):
    assert index.verify() == []
    weights = tmp_path / "index" / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(content)
    assert any("model" in problem for problem in Index.open(tmp_path / "index").verify())


def test_an_unreadable_query_is_refused(index, tmp_path):
    (tmp_path / "x.jpg").write_bytes(b"no picture")
    with pytest.raises(sf.ImageRejected, match="not an image"):
        index.search(tmp_path / "x.jpg")


def test_copies_of_an_unreadable_picture_are_unreadable_too(index, tmp_path):
    folder = tmp_path / "empty files"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.png").touch()
    report = index.add(folder, max_bad_share=1.0)
    assert (len(report.rejected), report.duplicates, report.added) == (3, (), 0)


def test_a_file_whose_name_is_not_text_is_rejected(index, tmp_path, photos):
    folder = tmp_path / "odd names"
    folder.mkdir()
    odd = folder / "b\udcff.png"
    odd.write_bytes(files(photos)[0].read_bytes()[:-1] + b"x")
    report = index.add([odd], max_bad_share=1.0)
    assert [bad.reason for bad in report.rejected] == ["its name is not a text: rename it"]


@pytest.mark.parametrize("engine", ["fais", "qdrant://x", "pg://x", "faiss://x"])
def test_an_unknown_engine_is_refused_with_those_that_are_known(tmp_path, encoder, engine):
    with pytest.raises(sf.InvalidArgument, match="faiss, pgvector"):
        Index.create(tmp_path / "index", encoder, engine=engine)


def vectors_index(tmp_path: Path) -> tuple[sf.Index, np.ndarray]:
    """An index of points without a model."""
    vectors = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)
    index = sf.Index.create_empty(tmp_path / "index", Space("gaussian", 8, "mean"), fingerprint="x")
    names = [f"row {row}" for row in range(30)]
    facts = [{"label": f"class {row % 3}", "price": row} for row in range(30)]
    index.add_embeddings(index.embed(vectors), names, metadata=facts)
    return index, vectors


@pytest.mark.parametrize(
    "given",
    [lambda x: x, lambda x: x.astype(np.float64), torch.from_numpy, np.ndarray.tolist, list],
    ids=["float32", "float64", "torch", "lists", "rows"],
)
def test_vectors_of_any_type_are_queries(tmp_path, given):
    index, vectors = vectors_index(tmp_path)
    several = index.search(given(vectors[3:6]), k=1)
    assert [its.hits[0].id for its in several] == ["row 3", "row 4", "row 5"]
    one = index.search(given(vectors[7]), k=1)
    assert one.hits[0].id == "row 7"


def test_vectors_of_another_width_are_refused(tmp_path):
    index, vectors = vectors_index(tmp_path)
    with pytest.raises(sf.InvalidArgument, match="vectors: expected 8 numbers each, got 5"):
        index.search(vectors[:, :5])


def test_an_index_is_a_collection_of_ids(tmp_path):
    index, vectors = vectors_index(tmp_path)
    assert "row 3" in index and "row 99" not in index and 3 not in index
    assert sorted(index) == sorted(f"row {row}" for row in range(30))
    item = index["row 3"]
    assert (item.id, item.metadata["price"]) == ("row 3", 3)
    np.testing.assert_array_equal(item.embedding.mean[0], vectors[3])
    with pytest.raises(KeyError, match="no image of the index has the id 'row 99'"):
        index["row 99"]


def test_metadata_can_be_changed_field_by_field(tmp_path):
    index, vectors = vectors_index(tmp_path)
    index.update("row 3", {"price": 99, "colour": "red", "label": None})
    assert index["row 3"].metadata == {"price": 99, "colour": "red"}
    assert index.search(vectors[3], k=1, where="colour=red").hits[0].id == "row 3"
    assert len(index) == 30
    with pytest.raises(sf.InvalidArgument, match="price: expected a text"):
        index.update("row 3", {"price": float("nan")})
    with pytest.raises(KeyError):
        index.update("row 99", {"price": 1})
    assert index["row 3"].metadata["price"] == 99


def test_an_index_is_pickled_by_its_path(tmp_path):
    index, vectors = vectors_index(tmp_path)
    copy = pickle.loads(pickle.dumps(index))
    assert copy.search(vectors[:2], k=3) == index.search(vectors[:2], k=3)


def test_a_data_frame_brings_its_metadata(encoder, photos, tmp_path):
    paths = [str(path) for path in files(photos)[:3]]
    frame = pandas.DataFrame({"path": paths, "price": [1.5, 2.5, 3.5]})
    with Index.create(tmp_path / "framed", encoder, frame) as index:
        assert index.count(Where.parse(["price>2"])) == 2
        assert index.items([paths[0]]).metadata[0]["price"] == 1.5


def test_images_are_queries_in_any_form(index, photos):
    paths = files(photos)[:3]
    pixels = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in paths])
    wanted = [result.hits[0].id for result in index.search(paths, k=1)]
    frame = pandas.DataFrame({"path": [str(path) for path in paths]})
    for several in (pixels, pixels / 255.0, (path for path in paths), frame):
        assert [result.hits[0].id for result in index.search(several, k=1)] == wanted
    assert index.search(pixels[0], k=1).hits[0].id == wanted[0]
    for nothing in (None, 3):
        with pytest.raises(sf.InvalidArgument, match="queries: expected images or vectors"):
            index.search(nothing)
