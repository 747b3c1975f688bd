"""What clients are sent: no path of this machine, and nothing that is not a number."""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from serving import served
from stores import forget_calibration

from surefind.embeddings import Gaussians
from surefind.search.index import Index
from surefind.serve.gallery import item_of
from surefind.serve.responses import finite

ITEM = item_of("class00/0.png")
GETS = [
    "/v1/info",
    "/v1/uncertainty",
    "/v1/map",
    f"/v1/items/{ITEM}",
    f"/v1/items/{ITEM}/neighbours",
    f"/v1/items/{item_of('gone')}",
    f"/v1/items/{item_of('gone')}/neighbours",
    f"/v1/items/{item_of('gone')}/thumbnail",
    "/v1/samples/99",
    "/readyz",
    "/metrics",
    "/docs",
    "/openapi.json",
    "/nowhere",
]


def texts_of(answer: Any) -> Iterator[str]:
    if isinstance(answer, str):
        yield answer
    elif isinstance(answer, dict):
        yield from (text for pair in answer.items() for part in pair for text in texts_of(part))
    elif isinstance(answer, list):
        yield from (text for part in answer for text in texts_of(part))


def parsed(response: Any) -> Any:
    is_json = response.headers["content-type"].startswith("application/json")
    return json.loads(response.content) if is_json else response.text


@pytest.fixture(scope="module", params=["calibrated", "plain", "lost pictures"])
def any_service(request, model, tmp_path_factory):
    """Indexes whose folder, pictures and calibration have one root: it must not be seen."""
    from calibrations import make_calibrated_index

    home = make_calibrated_index(tmp_path_factory.mktemp("hidden-place"), model)
    if request.param == "plain":
        forget_calibration(home / "index")
    if request.param == "lost pictures":
        (home / "photos").rename(home / "elsewhere")
    with served(Index.open(home / "index"), samples=home / "queries" / "class01") as service:
        yield service


def test_no_answer_holds_a_path_of_this_machine(any_service, photo):
    client = any_service.client
    said = [client.get(path) for path in (*GETS, f"/v1/items/{ITEM}/thumbnail")]
    for path in ("/v1/search", "/v1/search?where=path>=/", "/v1/embed"):
        said += [client.post(path, content=content) for content in (photo, b"none")]
    for text in (text for response in said for text in texts_of(parsed(response))):
        assert "hidden-place" not in text and not re.search(r"/(tmp|home|root|usr)/", text)


def test_a_path_cannot_be_found_out_by_asking_whether_it_is(any_service, photo):
    for how in ("where=path>=/", "where=path=x", "where=label=a&where=path!=x"):
        assert any_service.client.post(f"/v1/search?{how}", content=photo).status_code == 400
        assert any_service.client.get(f"/v1/items/{ITEM}/neighbours?{how}").status_code == 400


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_becomes_null(value):
    assert finite(value) is None and finite(0.5) == 0.5


def test_huge_distances_are_sent_as_json_that_everybody_reads(tmp_path):
    from clusters import FINGERPRINT, SPACE

    index = Index.create_empty(tmp_path / "index", SPACE, fingerprint=FINGERPRINT)
    mean = 1e6 * np.eye(4, SPACE.dim, dtype="f4")
    var = torch.full((4,), 1e6)
    index.add_embeddings(Gaussians(torch.from_numpy(mean), var), list("abcd"))
    with served(index) as service:
        response = service.client.get(f"/v1/items/{item_of('a')}/neighbours")
        assert response.status_code == 200

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        found = json.loads(response.content, parse_constant=refuse)
        assert len(found["hits"]) == 3
