"""Label answers in detail, prior calibrations, and indexes calibrated without labels."""

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from accessibility import contrast_problems, scrolls_sideways, unnamed
from pages import Visit, choose, in_percent, search, shows_result
from playwright.sync_api import Page, Route, expect
from servers import Served, served

from surefind.encoders import Encoder
from surefind.search.index import Index

pytestmark = pytest.mark.slow

ATTACK = "<img src=x onerror=alert(1)>"
LONG = "a name that is far too long for one line, " * 5
LABELS = {"Blackbird": 0.41, ATTACK: 0.33, "__proto__": 0.1, LONG: 0.06, "7": 0.04, "5": 0.03}
TITLES = {"match": "Match", "unsure": "Unsure", "no_match": "No match: not in the catalogue"}


def changed(**fields: Any) -> Callable[[Route], None]:
    """The server's answer with other fields."""

    def answer(route: Route) -> None:
        route.fulfill(json=route.fetch().json() | fields)

    return answer


def open_with(visit: Visit, at: Served, path: Path, *, width: int = 1280, **fields: Any) -> Page:
    page = visit(at, width=width)
    page.route("**/v1/search?*", changed(**fields))
    choose(page, path)
    return page


def unsure_of(labels: dict[str, float]) -> dict[str, Any]:
    first = next(iter(labels))
    return {
        "verdict": "unsure", "label": first, "label_confidence": labels[first], "labels": labels,
        "label_set": [*labels],
    }  # fmt: skip


@pytest.mark.parametrize("width", [390, 1280])
def test_an_unsure_answer_lists_five_labels_as_text_and_counts_the_rest(
    visit: Visit, service: Served, by_verdict: dict[str, Path], width: int
) -> None:
    labels = LABELS | {"6": 0.01}
    page = open_with(visit, service, by_verdict["unsure"], width=width, **unsure_of(labels))
    rows = page.locator(".label-bars li")
    expect(rows).to_have_count(6)
    texts = [text.split("\n") for text in rows.all_inner_texts()]
    for row, (label, chance) in zip(texts[:3], LABELS.items(), strict=False):
        assert row == [label, in_percent(chance)]
    assert texts[4] == ["7", "4 %"] and texts[5] == ["and 2 more"]
    assert page.locator(".label-bars bdi[title]").get_attribute("title") == LONG
    widths = page.eval_on_selector_all(".label-bars .fill", "all => all.map(one => one.getBoundingClientRect().width)")
    assert widths == sorted(widths, reverse=True) and widths[0] > 5 * widths[4]
    assert page.locator("img[onerror]").count() == 0
    assert not scrolls_sideways(page) and contrast_problems(page) == [] and unnamed(page) == []


@pytest.mark.parametrize(("guaranteed", "kind"), [(True, "Match"), (False, "Match \N{MIDDLE DOT} not guaranteed")])
def test_a_match_names_a_hostile_label_as_text_and_says_if_it_is_not_guaranteed(
    visit: Visit, service: Served, by_verdict: dict[str, Path], guaranteed: bool, kind: str
) -> None:
    fields = unsure_of({ATTACK: 0.974}) | {"verdict": "match", "guaranteed": guaranteed}
    page = open_with(visit, service, by_verdict["match"], **fields)
    assert page.inner_text("#verdict h2") == f"{ATTACK}, 97 %"
    assert page.inner_text(".verdict-kind") == kind
    assert page.locator("img[onerror]").count() == 0


def test_an_unsure_answer_with_one_label_says_perhaps(
    visit: Visit, service: Served, by_verdict: dict[str, Path]
) -> None:
    page = open_with(visit, service, by_verdict["unsure"], **unsure_of({"Blackbird": 0.41}))
    assert page.inner_text("#verdict h2") == "Perhaps Blackbird, 41 %"
    assert page.locator(".label-bars").count() == 0


def test_hits_with_the_label_of_a_match_are_marked(visit: Visit, service: Served, by_verdict: dict[str, Path]) -> None:
    page, answer = visit(service), search(service, by_verdict["match"])
    choose(page, by_verdict["match"])
    marked = page.locator("#hits .look .hit-label").all_inner_texts()
    assert marked == [hit["label"] for hit in answer["hits"] if hit["label"] == answer["label"]]
    assert page.inner_text("#hits-words") == f"12 hits, {len(marked)} with this label"
    assert page.get_attribute("#hits", "aria-label") == "Hits, most confident first"


# without labels


@pytest.mark.parametrize("verdict", TITLES)
def test_without_labels_the_verdict_and_the_confidence_of_the_first_hit_are_shown(
    visit: Visit, label_free_service: Served, by_verdict: dict[str, Path], verdict: str
) -> None:
    page, path = visit(label_free_service), by_verdict[verdict]
    choose(page, path)
    answer, text = search(label_free_service, path), page.inner_text("#verdict")
    assert answer["verdict"] == verdict and shows_result(page, answer)
    assert page.inner_text("#verdict h2") == TITLES[verdict]
    assert answer["calibrated"] in text
    assert ("the threshold of" in text) == (verdict != "no_match")
    assert (in_percent(answer["confidence"]) in text) == (verdict != "no_match")
    assert page.locator(".verdict-kind, .label-bars").count() == 0


# the prior


@pytest.fixture(scope="module")
def prior(model: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Server of an index with too few labels for a calibration of its own."""
    folder = tmp_path_factory.mktemp("prior")
    for name in ("class00", "class01", "class02"):
        copytree(home / "photos" / name, folder / "photos" / name)
    index = Index.create(folder / "few", Encoder.load(model), folder / "photos")
    with served(index) as shared:
        yield shared


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_a_prior_calibration_is_named_and_nothing_is_measured(
    visit: Visit, prior: Served, home: Path, width: int, scheme: str
) -> None:
    page = visit(prior, width=width, scheme=scheme)
    choose(page, home / "queries" / "class00" / "0.png")
    expect(page.locator("#verdict")).to_contain_text("prior calibration of surefind")
    assert "not guaranteed" in page.inner_text(".verdict-kind")
    assert page.input_value("#threshold") == "0.95"
    assert "not measured on this index" in page.inner_text("#threshold-words")
    page.fill("#threshold", "0.5")
    assert not scrolls_sideways(page) and contrast_problems(page) == []
    page.click("#tab-evaluation")
    text = page.inner_text("#evaluation")
    made = prior.client.get("/v1/info").json()["calibration"]
    assert "Prior calibration" in text and made["guaranteed"].replace("`", "") in text
    assert page.locator("#evaluation svg").count() == 0
    assert not scrolls_sideways(page) and contrast_problems(page) == []
