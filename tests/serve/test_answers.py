"""The service says what the index says."""

import pytest

from surefind.search.hits import SearchResult
from surefind.search.index import Index
from surefind.serve.gallery import item_of

NAME = "class05/1.png"


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
