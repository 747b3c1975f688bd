"""The service against its own OpenAPI document: no failure, and nothing that is not described."""

import pytest
from exploring import explore, operations_of

from surefind.serve.gallery import item_of

EVERYDAY, LONG = 20, 200  # questions for each operation

OPERATIONS = [
    ("POST", "/v1/search"),
    ("POST", "/v1/embed"),
    ("POST", "/v1/search/vector"),
    ("GET", "/v1/items/{item}"),
    ("GET", "/v1/items/{item}/neighbours"),
    ("GET", "/v1/items/{item}/thumbnail"),
    ("GET", "/v1/info"),
    ("GET", "/v1/uncertainty"),
    ("GET", "/v1/map"),
    ("GET", "/v1/samples/{number}"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("POST", "/v1/session"),
]


def test_every_operation_that_is_described_is_explored(service):
    assert sorted(operations_of(service.url)) == sorted(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
@pytest.mark.parametrize("examples", [EVERYDAY, pytest.param(LONG, marks=pytest.mark.faults)])
def test_whatever_is_asked_is_answered_as_described(service, photo, operation, examples):
    images = [photo, photo[:100], b"", b"GIF89a"]
    items = [item_of("class00/0.png"), item_of("gone.png"), item_of("../../etc/passwd")]
    explore(service.url, operation, examples=examples, images=images, items=items)
