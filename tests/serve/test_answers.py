"""The service says what the index says, as many hits as were asked for."""

import math

import pytest
from serving import served

from surefind.encoders import Encoder
from surefind.search.hits import SearchResult
from surefind.search.index import Index
from surefind.serve.gallery import item_of

NAME = "class05/1.png"
NEIGHBOURS = f"/v1/items/{item_of('class00/0.png')}/neighbours"


@pytest.fixture(scope="module")
def index(home):
    with Index.open(home / "index") as opened:
        yield opened


def check_same(told: dict, wanted: SearchResult) -> None:
    near = lambda value: None if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)
    assert [hit["id"] for hit in told["hits"]] == [hit.id for hit in wanted.hits]
    assert told["verdict"] == wanted.verdict and told["show"] == wanted.show
    assert told["confidence"] == near(wanted.confidence)
    assert told["novelty_p_value"] == near(wanted.novelty_p_value)
    assert told["query"]["var"] == near(wanted.query_var)
    for sent, hit in zip(told["hits"], wanted.hits, strict=True):
        for name in ("distance", "expected_distance", "std", "var", "confidence"):
            assert sent[name] == near(getattr(hit, name))
        assert sent["metadata"] == {k: v for k, v in hit.metadata.items() if k != "path"}
        assert sent["label"] == hit.metadata["label"]


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("", {}),
        ("&ranking=expected", {"ranking": "expected"}),
        ("&where=label=class03", {"where": "label=class03"}),
        ("&expand=3", {"expand": 3}),
    ],
)
def test_a_search_is_answered_as_by_the_index(service, index, photo, query, asked):
    told = service.client.post(f"/v1/search?k=8{query}", content=photo)
    assert told.status_code == 200
    check_same(told.json(), index.search(photo, 8, **asked))
    assert "search;dur=" in told.headers["server-timing"]


@pytest.mark.parametrize("ranking", ["mean", "expected"])
def test_neighbours_are_those_of_the_index(service, index, ranking):
    told = service.client.get(f"/v1/items/{item_of(NAME)}/neighbours?k=6&ranking={ranking}")
    check_same(told.json(), index.neighbours(NAME, 6, ranking=ranking))
    assert told.json()["query"]["id"] == NAME and told.json()["query"]["bytes"] is None


def test_an_item_is_told_as_the_index_knows_it(service, index):
    told = service.client.get(f"/v1/items/{item_of(NAME)}").json()
    rows = index.items([NAME])
    assert (told["id"], told["label"]) == (NAME, "class05")
    assert told["var"] == pytest.approx(float(index.space.var(rows.embeddings)[0]), rel=1e-6)
    assert service.client.get(f"/v1/items/{item_of('gone')}").status_code == 404


def test_an_embedding_is_that_of_the_encoder(service, index, photo):
    told = service.client.post("/v1/embed", content=photo).json()
    encoded = index.encoder.encode(photo)
    assert told["mean"] == pytest.approx(encoded.mean[0].tolist(), abs=1e-6)
    assert told["var"] == pytest.approx(float(index.space.var(encoded)[0]), rel=1e-5)
    assert told["fingerprint"] == index.fingerprint


def test_what_is_told_of_the_index_is_so(service, index):
    info, ready = service.client.get("/v1/info").json(), service.client.get("/readyz").json()
    assert info["images"] == ready["images"] == len(index) == 144
    assert info["engine"] == "faiss" and info["dim"] == index.space.dim
    assert ready["ready"] and info["calibration"]["queries"] == 288
    assert info["pictures"] and info["labelled"] and len(info["samples"]) == 12
    thumbnail = service.client.get(info["samples"][0]["thumbnail"])
    assert thumbnail.status_code == 200 and thumbnail.headers["content-type"] == "image/png"


# how many


@pytest.mark.parametrize("query", ["k=0", "k=201", "k=9" + "9" * 400, "k=1.5", "k=", "k=a"])
def test_a_number_of_hits_that_is_none_is_refused_with_the_reason(service, photo, query):
    for response in (
        service.client.post(f"/v1/search?{query}", content=photo),
        service.client.get(f"{NEIGHBOURS}?{query}"),
    ):
        assert response.status_code == 422
        assert response.json()["error"]["problem"].startswith("k: ")


@pytest.mark.parametrize(("query", "hits"), [("", 12), ("k=1", 1), ("k=3&k=5", 5)])
def test_as_many_hits_come_as_were_wanted(service, photo, query, hits):
    assert len(service.client.post(f"/v1/search?{query}", content=photo).json()["hits"]) == hits


def test_asked_for_more_than_there_are_all_come_and_no_other(service, photo):
    found = service.client.post("/v1/search?k=200", content=photo).json()["hits"]
    near = service.client.get(f"{NEIGHBOURS}?k=200").json()["hits"]
    assert len({hit["id"] for hit in found}) == len(found) == 144
    assert len({hit["id"] for hit in near}) == len(near) == 143
    for hit in (*found, *near):
        assert hit["id"] and math.isfinite(hit["distance"]) and hit["var"] > 0
    assert [hit["rank"] for hit in found] == list(range(1, 145))
    nothing = service.client.post("/v1/search?where=label=nothing", content=photo)
    assert nothing.status_code == 200 and nothing.json()["hits"] == []


def test_an_empty_index_answers_that_there_is_nothing(tmp_path, model, photo):
    index = Index.create(tmp_path / "index", Encoder.load(model))
    with served(index) as service:
        found = service.client.post("/v1/search", content=photo)
        assert found.status_code == 200 and found.json()["hits"] == []
        assert found.json()["index"]["images"] == 0 and found.json()["verdict"] is None
        assert service.client.post("/v1/embed", content=photo).status_code == 200
        ready = service.client.get("/readyz")
        assert ready.status_code == 200 and ready.json()["images"] == 0
        info = service.client.get("/v1/info").json()
        assert info["images"] == 0 and info["samples"] == [] and not info["labelled"]
        assert service.client.get("/v1/uncertainty").json()["edges"] == []
        assert service.client.get(NEIGHBOURS).status_code == 404


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/v1/items/{item}/neighbours?where=", ["label=class00&where=" * 16 + "label=class00"]),
        ("/v1/items/{item}/thumbnail?side=", ["0", "63", "513", "-64", "a", "", "1e3"]),
        ("/v1/search?expand=", ["51", "-1", "a", "1.5"]),
    ],
)
def test_other_numbers_that_are_out_of_bounds_are_refused(service, photo, path, values):
    for value in values:
        asked = path.format(item=item_of("class00/0.png")) + value
        method, content = ("POST", photo) if "search" in path else ("GET", None)
        assert service.client.request(method, asked, content=content).status_code == 422
