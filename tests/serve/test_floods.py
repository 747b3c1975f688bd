"""A gigabyte for every route that reads a body: refused, and never held."""

import pytest
from raw_http import flooded, head_of
from serving import running

GIGABYTE = 2**30
FLAT = 100 * 2**20  # bytes of growth that say nothing
CHUNKED = ("Transfer-Encoding: chunked",)
ROUTES = {
    "/v1/search": "application/octet-stream",
    "/v1/embed": "application/octet-stream",
    "/v1/search/vector": "application/json",
    "/v1/session": "application/json",
}


@pytest.fixture(scope="module")
def of_vectors(vectors):
    with running(vectors) as started:
        yield started


@pytest.fixture
def flooding(request, route):
    """The server that takes what the route wants."""
    return request.getfixturevalue("of_vectors" if "vector" in route else "process")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("length", "chunked"),
    [((f"Content-Length: {GIGABYTE}",), False), (CHUNKED, True)],
    ids=["announced", "chunked"],
)
def test_a_gigabyte_is_refused_with_flat_memory(flooding, route, length, chunked):
    head = head_of("POST", route, f"Content-Type: {ROUTES[route]}", *length)
    flooding.forget_peak()
    before = flooding.memory()
    assert flooded(flooding.url, head, size=GIGABYTE, chunked=chunked) == 413
    assert flooding.peak() - before < FLAT
    assert flooding.client.get("/healthz").status_code == 200
