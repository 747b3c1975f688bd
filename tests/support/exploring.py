"""Questions that are made up from the service's own description, and what is wrong with answers."""

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

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def description_of(url: str) -> schemathesis.schemas.BaseSchema:
    """Fetched without the proxies of the machine."""
    session = requests.Session()
    session.trust_env = False
    with session:
        document = session.get(f"{url}/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=url)
    return schema


def operations_of(url: str) -> list[tuple[str, str]]:
    """Method and path of each."""
    found = description_of(url).get_all_operations()
    return [(one.ok().method.upper(), one.ok().path) for one in found]


def explore(
    url: str,
    operation: tuple[str, str],
    *,
    examples: int,
    images: list[bytes],
    items: list[str],
) -> None:
    """Ask one operation as described and otherwise; some of the questions with real contents."""
    method, path = operation
    described = description_of(url)[path][method]
    asked = st.one_of(*(described.as_strategy(generation_mode=mode) for mode in GenerationMode))

    @given(
        case=asked, image=st.sampled_from(images), item=st.sampled_from(items), real=st.booleans()
    )
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
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
