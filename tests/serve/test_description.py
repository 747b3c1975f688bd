"""Generated requests against the OpenAPI document: no internal error, only documented responses."""

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.generation.case import Case
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from surefind.serve.gallery import item_of

QUICK, LONG = 6, 200  # requests for each operation

OPERATIONS = [
    ("POST", "/v1/search"),
    ("POST", "/v1/embed"),
    ("POST", "/v1/search/vector"),
    ("GET", "/v1/items/{item}"),
    ("GET", "/v1/items/{item}/neighbours"),
    ("GET", "/v1/items/{item}/thumbnail"),
    ("GET", "/v1/info"),
    ("GET", "/v1/map"),
    ("GET", "/v1/samples/{number}"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("POST", "/v1/session"),
]


CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def description_of(url: str) -> schemathesis.schemas.BaseSchema:
    """Load the OpenAPI document, ignoring proxies."""
    session = requests.Session()
    session.trust_env = False
    with session:
        document = session.get(f"{url}/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=url)
    return schema


def test_every_documented_operation_is_tested(service):
    found = [one.ok() for one in description_of(service.url).get_all_operations()]
    assert sorted((one.method.upper(), one.path) for one in found) == sorted(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
@pytest.mark.parametrize("examples", [QUICK, pytest.param(LONG, marks=pytest.mark.faults)])
def test_responses_are_as_documented(service, photo, operation, examples):
    """Valid and invalid requests, some with real images and items."""
    method, path = operation
    described = description_of(service.url)[path][method]
    asked = st.one_of(*(described.as_strategy(generation_mode=mode) for mode in GenerationMode))
    images = st.sampled_from([photo, photo[:100], b"", b"GIF89a"])
    items = st.sampled_from([*map(item_of, ("class00/0.png", "gone.png", "../../etc/passwd"))])

    @given(case=asked, image=images, item=items, real=st.booleans())
    @settings(
        max_examples=examples, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    def ask(case: Case, image: bytes, item: str, real: bool) -> None:
        if real and isinstance(case.body, bytes):
            case.body = image
        if real and "item" in case.path_parameters:
            case.path_parameters["item"] = item
        case.call_and_validate(session=session, checks=CHECKS)

    with requests.Session() as session:
        session.trust_env = False
        ask()


def test_label_answers_are_described(service):
    document = service.client.get("/openapi.json").json()
    described = document["components"]["schemas"]
    fields = described["SearchAnswer"]["properties"]
    for name in ("label", "label_confidence", "labels", "label_set", "answer", "guaranteed"):
        assert fields[name]["description"]
    assert fields["labels"]["additionalProperties"] == {"type": "number"}
    assert "label" in described["HitAnswer"]["properties"]
    parameters = document["paths"]["/v1/search"]["post"]["parameters"]
    (ranking,) = (one for one in parameters if one["name"] == "ranking")
    assert "confidence" in ranking["description"]
