"""Responses equal the results of the index, with as many hits as requested."""

import math

import numpy as np
import pytest
import torch
from noisy_vectors import noisy_vectors
from servers import served

from surefind.embeddings import Gaussians
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


def check_same(answer: dict, wanted: SearchResult) -> None:
    near = lambda value: None if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)
    assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in wanted.hits]
    assert answer["verdict"] == wanted.verdict and answer["show"] == wanted.show
    assert answer["confidence"] == near(wanted.confidence)
    assert (answer["label"], answer["guaranteed"]) == (wanted.label, wanted.guaranteed)
    assert answer["label_confidence"] == near(wanted.label_confidence)
    assert answer["labels"] == pytest.approx(wanted.labels)
    assert [*answer["labels"]] == [*wanted.labels]
    assert answer["label_set"] == [*wanted.label_set]
    assert answer["novelty_p_value"] == near(wanted.novelty_p_value)
    assert answer["query"]["var"] == near(wanted.query_var)
    for sent, hit in zip(answer["hits"], wanted.hits, strict=True):
        for name in ("distance", "expected_distance", "std", "var", "confidence"):
            assert sent[name] == near(getattr(hit, name))
        assert sent["metadata"] == {k: v for k, v in hit.metadata.items() if k != "path"}
        assert sent["label"] == hit.label == hit.metadata["label"]


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {}),
        ("&ranking=confidence", {}),
        ("&ranking=expected", {"ranking": "expected"}),
        ("&where=label=class03", {"where": "label=class03"}),
        ("&expand=3", {"expand": 3}),
    ],
)
def test_a_search_equals_that_of_the_index(service, index, photo, query, options):
    response = service.client.post(f"/v1/search?k=8{query}", content=photo)
    assert response.status_code == 200
    check_same(response.json(), index.search(photo, 8, **options))
    assert "search;dur=" in response.headers["server-timing"]


@pytest.mark.parametrize("ranking", ["confidence", "expected"])
def test_neighbours_are_those_of_the_index(service, index, ranking):
    answer = service.client.get(f"/v1/items/{item_of(NAME)}/neighbours?k=6&ranking={ranking}").json()
    check_same(answer, index.neighbours(NAME, 6, ranking=ranking))
    assert answer["query"]["id"] == NAME and answer["query"]["bytes"] is None


def test_a_search_answers_with_labels_in_the_order_of_confidence(service, photo):
    answer = service.client.post("/v1/search", content=photo).json()
    chances = [*answer["labels"].values()]
    assert chances == sorted(chances, reverse=True) and 0 < sum(chances) <= 1 + 1e-9
    assert answer["label"] == next(iter(answer["labels"]))
    assert answer["label_confidence"] == chances[0]
    size = len(answer["label_set"])
    assert answer["label_set"] == [*answer["labels"]][:size] and size >= 1
    assert answer["answer"].startswith(f"{answer['label']}, ")
    sure = [hit["confidence"] for hit in answer["hits"]]
    assert sure == sorted(sure, reverse=True) and sure[0] == answer["confidence"]
    assert all(hit["confidence"] == answer["labels"][hit["label"]] for hit in answer["hits"])


def test_hits_have_the_label_of_the_field_that_was_calibrated(tmp_path):
    from clusters import FINGERPRINT, SPACE

    index = Index.create_empty(tmp_path / "index", SPACE, fingerprint=FINGERPRINT)
    birds = [f"bird {n % SPACE.dim}" for n in range(24)]
    mean = torch.eye(SPACE.dim).repeat(4, 1) + torch.linspace(0, 0.01, 24)[:, None]
    facts = [{"label": f"photo {n}", "species": bird} for n, bird in enumerate(birds)]
    names = [str(n) for n in range(24)]
    index.add_embeddings(Gaussians(mean, torch.full((24,), 0.01)), names, metadata=facts)
    index.calibrate(label="species")
    with served(index) as service:
        answer = service.client.get(f"/v1/items/{item_of('0')}/neighbours").json()
        assert answer["label"] == "bird 0"
        assert {hit["label"] for hit in answer["hits"]} <= {*birds}


def test_an_index_of_vectors_without_an_upgrade_is_searched_with_vectors(tmp_path, surefind):
    known = noisy_vectors(classes=8)
    np.savez(tmp_path / "gallery.npz", vectors=known.vectors, labels=known.labels)
    surefind("index", tmp_path / "gallery.npz", "-o", tmp_path / "index")
    with Index.open(tmp_path / "index") as index, served(index) as service:
        body = {"vector": known.vectors[0].tolist()}
        answer = service.client.post("/v1/search/vector", json=body).json()
        assert answer["hits"][0]["distance"] == pytest.approx(0, abs=1e-6)
        assert answer["label"] == "0" and answer["verdict"] == "match"


def test_an_item_has_the_metadata_of_the_index(service, index):
    response = service.client.get(f"/v1/items/{item_of(NAME)}").json()
    rows = index.items([NAME])
    assert (response["id"], response["label"]) == (NAME, "class05")
    assert response["var"] == pytest.approx(float(index.space.var(rows.embeddings)[0]), rel=1e-6)
    assert service.client.get(f"/v1/items/{item_of('gone')}").status_code == 404


def test_an_embedding_is_that_of_the_encoder(service, index, photo):
    response = service.client.post("/v1/embed", content=photo).json()
    encoded = index.encoder.encode(photo)
    assert response["mean"] == pytest.approx(encoded.mean[0].tolist(), abs=1e-6)
    assert response["var"] == pytest.approx(float(index.space.var(encoded)[0]), rel=1e-5)
    assert response["fingerprint"] == index.fingerprint


def test_info_and_readiness_describe_the_index(service, index):
    info, ready = service.client.get("/v1/info").json(), service.client.get("/readyz").json()
    assert info["images"] == ready["images"] == len(index) == 144
    assert info["ranking"] == "confidence"
    assert sorted(info["rankings"]) == ["confidence", "expected", "mean"]
    assert info["calibration"]["origin"]["evidence"] == "labels"
    assert info["engine"] == "faiss" and info["dim"] == index.space.dim
    assert ready["ready"] and info["calibration"]["origin"]["queries"] == 288
    assert info["pictures"] and len(info["samples"]) == 12
    thumbnail = service.client.get(info["samples"][0]["thumbnail"])
    assert thumbnail.status_code == 200 and thumbnail.headers["content-type"] == "image/png"


# how many


@pytest.mark.parametrize("query", ["k=0", "k=201", "k=9" + "9" * 400, "k=1.5", "k=", "k=a"])
def test_an_invalid_k_is_refused_with_a_reason(service, photo, query):
    for response in (
        service.client.post(f"/v1/search?{query}", content=photo),
        service.client.get(f"{NEIGHBOURS}?{query}"),
    ):
        assert response.status_code == 422
        assert response.json()["error"]["problem"].startswith("k: ")


def test_a_large_k_returns_every_image_once(service, photo):
    assert len(service.client.post("/v1/search", content=photo).json()["hits"]) == 12
    found = service.client.post("/v1/search?k=200", content=photo).json()["hits"]
    near = service.client.get(f"{NEIGHBOURS}?k=200").json()["hits"]
    assert len({hit["id"] for hit in found}) == len(found) == 144
    assert len({hit["id"] for hit in near}) == len(near) == 143
    for hit in (*found, *near):
        assert hit["id"] and math.isfinite(hit["distance"]) and hit["var"] > 0
    assert [hit["rank"] for hit in found] == list(range(1, 145))
    nothing = service.client.post("/v1/search?where=label=nothing", content=photo)
    assert nothing.status_code == 200 and nothing.json()["hits"] == []


def test_an_empty_index_returns_no_hits(tmp_path, model, photo):
    index = Index.create(tmp_path / "index", Encoder.load(model))
    with served(index) as service:
        found = service.client.post("/v1/search", content=photo)
        assert found.status_code == 200 and found.json()["hits"] == []
        assert found.json()["index"]["images"] == 0 and found.json()["verdict"] is None
        assert service.client.post("/v1/embed", content=photo).status_code == 200
        ready = service.client.get("/readyz")
        assert ready.status_code == 200 and ready.json()["images"] == 0
        info = service.client.get("/v1/info").json()
        assert info["images"] == 0 and info["samples"] == []
        assert info["variances"]["edges"] == []
        assert service.client.get(NEIGHBOURS).status_code == 404


def test_a_thumbnail_is_drawn_once_and_not_sent_again(service):
    url = f"/v1/items/{item_of('class01/1.png')}/thumbnail?side=100"
    before = service.state.thumbnail.cache_info().misses
    first, second = service.client.get(url), service.client.get(url)
    assert first.headers["content-type"] == "image/jpeg" and first.content == second.content
    assert service.state.thumbnail.cache_info().misses == before + 1
    known = {"If-None-Match": first.headers["etag"]}
    assert service.client.get(url, headers=known).status_code == 304
