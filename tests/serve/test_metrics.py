"""Prometheus metrics, HEAD requests, internal errors."""

import re

import pytest
from servers import ON_PURPOSE, client_of, served

from surefind.search.index import Index


@pytest.fixture
def fresh(home):
    with served(Index.open(home / "index")) as service:
        yield service


def lines(service, name):
    return [one for one in service.client.get("/metrics").text.splitlines() if one.startswith(name)]


def test_unknown_methods_and_paths_do_not_add_labels(fresh):
    for number in range(20):
        fresh.client.get(f"/nowhere/{number}")
        fresh.client.request(f"METHOD{number}", "/healthz")
        fresh.client.request(f"METHOD{number}", f"/nowhere/{number}")
        fresh.client.get(f"/v1/items/abc{number}")
        fresh.client.get(f"/page/{number}")
    counted = lines(fresh, "surefind_requests_total")
    assert len(counted) < 15
    methods = {re.search(r'method="([^"]*)"', line)[1] for line in counted}
    assert methods <= {"GET", "HEAD", "POST", "other"}


def test_a_search_is_counted_with_its_verdict_and_timings(fresh, photo):
    for _ in range(3):
        assert fresh.client.post("/v1/search", content=photo).status_code == 200
    route = 'surefind_requests_total{method="POST",route="/v1/search",status="200"} 3.0'
    assert route in lines(fresh, "surefind_requests_total")
    verdicts = lines(fresh, "surefind_verdicts_total")
    assert sum(float(line.split()[-1]) for line in verdicts) == 3
    for stage in ("decode", "wait", "encode", "search", "total"):
        assert f'surefind_stage_seconds_count{{stage="{stage}"}} 3.0' in lines(fresh, "surefind_stage_seconds_count")
    assert "surefind_index_images 144.0" in lines(fresh, "surefind_index_images")
    assert lines(fresh, "surefind_in_flight") == ["surefind_in_flight_requests 0.0"]


def test_head_is_served_like_get_without_the_body(fresh):
    for path, route in (("/", "/"), ("/v1/info", "/v1/info"), ("/docs", "/docs"), ("/x", "none")):
        got, head = fresh.client.get(path), fresh.client.head(path)
        assert head.status_code == got.status_code and head.content == b""
        assert head.headers["content-type"] == got.headers["content-type"]
        status = head.status_code
        counted = f'surefind_requests_total{{method="HEAD",route="{route}",status="{status}"}} 1.0'
        assert counted in lines(fresh, "surefind_requests_total")


def test_an_unsupported_method_gets_405_with_allow(fresh):
    response = fresh.client.put("/v1/search")
    assert response.status_code == 405 and response.headers["allow"] == "POST"


def test_an_internal_error_is_reported_without_details_and_counted(fresh, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError(ON_PURPOSE)

    monkeypatch.setattr(Index, "items", fail)
    with client_of(fresh.url) as another:  # its connection ends with the failure
        response = another.get("/v1/items/Y2xhc3MwMC8wLnBuZw")
    assert response.status_code == 500
    assert response.json()["error"]["problem"] == "internal error"
    assert ON_PURPOSE not in response.text and ON_PURPOSE in caplog.text
    assert response.headers["x-content-type-options"] == "nosniff"
    counted = [one for one in lines(fresh, "surefind_requests_total") if 'status="500"' in one]
    assert len(counted) == 1 and counted[0].endswith(" 1.0")
