"""No probabilities without a calibration; with one, every response names it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from servers import Served, served, wait_until
from stores import forget_calibration

from surefind.confidence.calibrate import CalibrationTargets
from surefind.search.index import Index
from surefind.serve.gallery import item_of

ITEM = item_of("class00/0.png")
PROBABILITIES = (
    "confidence", "novelty_p_value", "show", "verdict", "sentence", "advice", "label_confidence",
    "answer",
)  # fmt: skip


@pytest.fixture
def plain(own) -> Path:
    """An index that is not calibrated."""
    forget_calibration(own)
    return own


def search_answers(service: Served, photo: bytes) -> list[dict[str, Any]]:
    found = service.client.post("/v1/search", content=photo)
    near = service.client.get(f"/v1/items/{ITEM}/neighbours")
    return [found.json(), near.json()]


def values_of(name: str, answer: Any) -> Iterator[Any]:
    """Values of every field with that name, at any depth."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            yield from [value] if key == name else values_of(name, value)
    elif isinstance(answer, list):
        for value in answer:
            yield from values_of(name, value)


def test_without_a_calibration_no_response_contains_a_probability(plain, photo):
    with served(Index.open(plain)) as service:
        for answer in search_answers(service, photo):
            assert len(answer["hits"]) == 12 and not answer["guaranteed"]
            for name in PROBABILITIES:
                assert set(values_of(name, answer)) == {None}
            assert answer["uncalibrated"].startswith("not calibrated yet: surefind calibrate")
            assert answer["calibrated"] is None
        info = service.client.get("/v1/info").json()
        assert info["calibration"] is None and "surefind calibrate" in info["how_to_calibrate"]


@pytest.mark.parametrize("how", ["where=label=class00", "expand=3", "ranking=expected"])
def test_a_search_that_was_not_calibrated_has_no_probability(label_free_service, photo, how):
    answer = label_free_service.client.post(f"/v1/search?{how}", content=photo).json()
    for name in PROBABILITIES:
        assert set(values_of(name, answer)) == {None}
    assert (answer["label"], answer["labels"], answer["label_set"]) == (None, {}, [])
    assert "for plain searches" in answer["uncalibrated"]
    assert answer["calibrated"] is None


@pytest.mark.parametrize("how", ["where=label>=class02", "expand=3", "ranking=expected"])
def test_labels_give_every_search_a_probability_but_no_guarantee(service, photo, how):
    answer = service.client.post(f"/v1/search?{how}", content=photo).json()
    assert answer["verdict"] and answer["label_confidence"] and not answer["guaranteed"]
    assert all(hit["confidence"] is not None for hit in answer["hits"])


def test_a_prior_calibration_is_named_and_has_no_quality(home, own, photo):
    with Index.open(own) as index:
        index.remove([f"class{n:02}/{k}.png" for n in range(3, 24) for k in range(6)])
        index.calibrate()
    with served(Index.open(own)) as service:
        info = service.client.get("/v1/info").json()
        made = info["calibration"]
        assert (made["origin"]["evidence"], made["quality"]) == ("prior", None)
        assert made["guarantee"]["threshold"] is None
        assert made["match_threshold"] == made["guarantee"]["precision"]
        assert made["reliability"] == []
        assert "prior" in made["made_with"] and "surefind calibrate" in info["how_to_calibrate"]
        for answer in search_answers(service, photo):
            assert answer["calibrated"] == made["made_with"]
            assert answer["verdict"] and not answer["guaranteed"]


def test_with_a_calibration_every_response_names_it(service, photo):
    for answer in search_answers(service, photo):
        assert answer["verdict"] in ("match", "unsure", "no_match")
        assert all(0 <= hit["confidence"] <= 1 for hit in answer["hits"])
        assert answer["uncalibrated"] is None
        assert "288 queries of 24 classes (queries)" in answer["calibrated"]


def test_a_calibration_made_while_serving_is_loaded(home, plain, photo):
    with served(Index.open(plain), reload_seconds=0.05) as service:
        assert search_answers(service, photo)[0]["confidence"] is None
        with Index.open(plain) as index:
            index.calibrate(home / "queries", targets=CalibrationTargets(precision=0.8), learn_variance=False)
        wait_until(lambda: service.client.get("/v1/info").json()["calibration"] is not None)
        info = service.client.get("/v1/info").json()
        for answer in search_answers(service, photo):
            assert answer["confidence"] is not None
            assert answer["calibrated"] == info["calibration"]["made_with"]
    origin = info["calibration"]["origin"]
    made = datetime.fromisoformat(origin["created"])
    assert abs((datetime.now(UTC) - made).total_seconds()) < 3600
    assert info["calibration"]["made_with"].startswith(f"{made:%Y-%m-%d}")
    assert (origin["source"], origin["queries"], origin["copies"]) == ("queries", 288, 0)
    assert info["calibration"]["left_out"] is None
    assert info["how_to_calibrate"] is None
