"""Responses contain no server paths and no NaN; histogram, threshold curve, reliability."""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from servers import served
from stores import forget_calibration

from surefind.confidence.calibration import Curve
from surefind.embeddings import Gaussians
from surefind.search.index import Index
from surefind.serve.gallery import item_of
from surefind.serve.responses import BINS, QueryAnswer, reliability, threshold_curve, variance_histogram

ITEM = item_of("class00/0.png")
GETS = [
    "/v1/info",
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
    """Indexes below a folder whose name must not appear in responses."""
    from calibrations import make_calibrated_index

    home = make_calibrated_index(tmp_path_factory.mktemp("hidden-place"), model)
    if request.param == "plain":
        forget_calibration(home / "index")
    if request.param == "lost pictures":
        (home / "photos").rename(home / "elsewhere")
    with served(Index.open(home / "index"), samples=home / "queries" / "class01") as service:
        yield service


def test_no_response_contains_a_server_path(any_service, photo):
    client = any_service.client
    said = [client.get(path) for path in (*GETS, f"/v1/items/{ITEM}/thumbnail")]
    for path in ("/v1/search", "/v1/search?where=path>=/", "/v1/embed"):
        said += [client.post(path, content=content) for content in (photo, b"none")]
    for text in (text for response in said for text in texts_of(parsed(response))):
        assert "hidden-place" not in text and not re.search(r"/(tmp|home|root|usr)/", text)


def test_filters_on_the_path_are_refused(any_service, photo):
    for how in ("where=path>=/", "where=path=x", "where=label=a&where=path!=x"):
        assert any_service.client.post(f"/v1/search?{how}", content=photo).status_code == 400
        assert any_service.client.get(f"/v1/items/{ITEM}/neighbours?{how}").status_code == 400


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_become_null(value):
    assert json.loads(QueryAnswer(var=value).model_dump_json())["var"] is None


def test_huge_distances_are_valid_json(tmp_path):
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


# variances


def test_histogram_counts_agree_with_a_loop_over_log_bins():
    var = np.exp(np.random.default_rng(0).normal(size=500))
    found = variance_histogram(var, of=1000)
    edges = found.edges
    assert (edges[0], edges[-1]) == (var.min(), var.max())
    assert np.diff(np.log(edges)) == pytest.approx(np.log(edges[-1] / edges[0]) / BINS)
    for place, count in enumerate(found.counts):
        last = place == BINS - 1
        inside = [v for v in var if edges[place] <= v and (v < edges[place + 1] or last)]
        assert len(inside) == count
    assert (found.images, found.of) == (500, 1000)


@pytest.mark.parametrize("var", [[], [0.1], [0.1, 0.1], [0.1, 0.1 * (1 + 1e-7)]])
def test_equal_variances_have_no_histogram(var):
    found = variance_histogram(np.array(var), of=9)
    assert (found.edges, found.counts, found.images, found.of) == ([], [], len(var), 9)


# thresholds and reliability


def curve_of(queries: list[tuple[float, bool]]) -> Curve:
    sure, right = zip(*queries, strict=True) if queries else ((), ())
    return Curve(tuple(sure), tuple(right))


@pytest.mark.parametrize("count", [0, 1, 200])
def test_the_threshold_curve_agrees_with_a_loop(count):
    random = np.random.default_rng(count)
    sure = random.integers(0, 101, count) / 100  # also exactly at the thresholds
    queries = [(float(p), bool(random.random() < p)) for p in sure]
    rows = threshold_curve(curve_of(queries), 0.5)
    assert [row.threshold for row in rows] == [n / 100 for n in range(101)]
    for row in rows:
        kept = [right for p, right in queries if p >= row.threshold]
        assert (row.answered, row.right) == (len(kept), sum(kept))
        assert row.coverage == len(kept) / max(count, 1)
        assert row.precision == (sum(kept) / len(kept) if kept else None)


def test_the_threshold_of_a_match_has_its_own_row():
    rows = threshold_curve(curve_of([(0.9, True), (0.715, True), (0.71, False)]), 0.715)
    assert [row.threshold for row in rows][70:74] == [0.7, 0.71, 0.715, 0.72]
    assert (rows[72].answered, rows[72].right) == (2, 2)


def test_equal_confidences_share_a_bin_and_empty_bins_are_omitted():
    (row,) = reliability(curve_of([(0.7, True), (0.7, False), (0.7, True)]))
    assert (row.confidence, row.right, row.queries) == (pytest.approx(0.7), pytest.approx(2 / 3), 3)
    assert reliability(curve_of([])) == []
