"""One bad image among many good ones, at the same time: it alone is refused, and counted once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from serving import client_of, served

from surefind.search.index import Index

GOOD, BAD = 200, 117


def test_one_bad_image_among_two_hundred_is_refused_alone(home, picture):
    sent = [picture(seed) for seed in range(GOOD + 1)]
    sent[BAD] = sent[BAD][: len(sent[BAD]) // 2]
    with served(Index.open(home / "index")) as service, client_of(service.url) as client:
        with ThreadPoolExecutor(16) as pool:
            said = list(pool.map(lambda one: client.post("/v1/search", content=one), sent))
        metrics = client.get("/metrics").text
    assert [number for number, one in enumerate(said) if one.status_code != 200] == [BAD]
    assert said[BAD].status_code == 422 and "truncated" in said[BAD].json()["error"]["problem"]
    assert 'surefind_rejected_requests_total{reason="image"} 1.0' in metrics
    assert (
        "surefind_rejected_requests_total" in metrics
        and metrics.count("surefind_rejected_requests_total{") == 1
    )
    counted = 'surefind_requests_total{method="POST",route="/v1/search",status="422"} 1.0'
    assert counted in metrics


@pytest.mark.parametrize("together", [1, 8])
def test_every_client_gets_the_answer_to_its_own_image(home, together):
    """However they are batched: each photo of the index finds itself first."""
    names = [f"class{n:02}/{m}.png" for n in range(24) for m in range(2)]
    photos = [(home / "photos" / name).read_bytes() for name in names]
    with (
        served(Index.open(home / "index"), workers=2) as service,
        client_of(service.url) as client,
        ThreadPoolExecutor(together) as pool,
    ):
        said = list(pool.map(lambda one: client.post("/v1/search?k=1", content=one), photos))
    assert [one.json()["hits"][0]["id"] for one in said] == names
