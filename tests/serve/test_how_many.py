"""How many hits are wanted, and of how many: each a documented answer, no hit that is none."""

import math

import pytest
from serving import served

from surefind.encoders import Encoder
from surefind.search.index import Index
from surefind.serve.gallery import item_of

NEIGHBOURS = f"/v1/items/{item_of('class00/0.png')}/neighbours"
REFUSED = ["k=0", "k=201", "k=9" + "9" * 400, "k=1.5", "k=", "k=a"]


@pytest.mark.parametrize("query", REFUSED)
def test_a_number_of_hits_that_is_none_is_refused_with_the_reason(service, photo, query):
    for response in (
        service.client.post(f"/v1/search?{query}", content=photo),
        service.client.get(f"{NEIGHBOURS}?{query}"),
    ):
        assert response.status_code == 422
        assert response.json()["error"]["problem"].startswith("k: ")


@pytest.mark.parametrize(("query", "hits"), [("", 12), ("k=1", 1), ("k=7", 7), ("k=3&k=5", 5)])
def test_as_many_hits_come_as_were_wanted(service, photo, query, hits):
    assert len(service.client.post(f"/v1/search?{query}", content=photo).json()["hits"]) == hits
    assert len(service.client.get(f"{NEIGHBOURS}?{query}").json()["hits"]) == hits


def test_asked_for_more_than_there_are_all_come_and_no_other(service, photo):
    found = service.client.post("/v1/search?k=200", content=photo).json()["hits"]
    near = service.client.get(f"{NEIGHBOURS}?k=200").json()["hits"]
    assert len({hit["id"] for hit in found}) == len(found) == 144
    assert len({hit["id"] for hit in near}) == len(near) == 143
    for hit in (*found, *near):
        assert hit["id"] and math.isfinite(hit["distance"]) and hit["var"] > 0
    assert [hit["rank"] for hit in found] == list(range(1, 145))


def test_a_filter_that_nothing_meets_gives_no_hits(service, photo):
    found = service.client.post("/v1/search?where=label=nothing", content=photo)
    assert found.status_code == 200 and found.json()["hits"] == []


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
