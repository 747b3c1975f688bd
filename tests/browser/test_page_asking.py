"""Four ways to ask with a picture, and an answer that says what the server said."""

from pathlib import Path

import pytest
from pages import (
    Visit,
    asked,
    await_answer,
    choose,
    drop,
    held,
    in_percent,
    items,
    meters,
    paste,
)
from playwright.sync_api import Page, expect
from serving import Served

VERDICTS = ("match", "unsure", "no_match")


def says_the_same(page: Page, answer: dict) -> bool:
    shown = page.locator("#hits .percent").all_inner_texts()
    return (
        page.get_attribute("#verdict", "data-verdict") == answer["verdict"]
        and items(page) == [hit["item"] for hit in answer["hits"]]
        and meters(page) == [round(100 * hit["confidence"], 2) for hit in answer["hits"]]
        and shown == [in_percent(hit["confidence"]) for hit in answer["hits"]]
    )


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_chosen_file_gets_the_verdict_and_numbers_of_the_server(
    visit: Visit, service: Served, by_verdict: dict[str, Path], verdict: str
) -> None:
    page, path = visit(service, height=2400), by_verdict[verdict]
    assert "144 images" in page.inner_text("h1")
    choose(page, path)
    answer, words = asked(service, path), page.inner_text("#verdict")
    assert answer["verdict"] == verdict and says_the_same(page, answer)
    assert page.inner_text("#verdict h2").startswith(verdict.capitalize())
    assert answer["sentence"][1:] in words and answer["calibrated"] in words
    assert (in_percent(answer["confidence"]) in words) == (verdict != "no_match")
    sizes = page.locator("#asked-picture img, #hits img").evaluate_all(
        "all => PrecisionGuarantee.all(all.map(one => one.decode().then(() => one.naturalWidth)))"
    )
    assert len(sizes) == 13 and all(sizes)
    told = page.inner_text("#asked")
    assert path.name in told and "20 \N{MULTIPLICATION SIGN} 20" in told


@pytest.mark.parametrize("place", ["#drop", "#foot"])
def test_a_file_dropped_anywhere_is_searched_with(
    visit: Visit, service: Served, by_verdict: dict[str, Path], place: str
) -> None:
    page, path = visit(service), by_verdict["match"]
    drop(page, path.read_bytes(), name=path.name, on=place)
    await_answer(page)
    assert says_the_same(page, asked(service, path))


def test_a_drop_without_a_file_is_explained(visit: Visit, service: Served) -> None:
    page = visit(service)
    held = page.evaluate_handle("() => new DataTransfer()")
    page.dispatch_event("#drop", "drop", {"dataTransfer": held})
    expect(page.locator("#error")).to_contain_text("no file")


def test_a_pasted_picture_is_searched_with(
    visit: Visit, service: Served, by_verdict: dict[str, Path]
) -> None:
    page, path = visit(service), by_verdict["unsure"]
    paste(page, path.read_bytes(), name="")
    await_answer(page)
    assert says_the_same(page, asked(service, path))
    assert page.inner_text("#asked-name") == "pasted picture"


def test_a_sample_is_searched_with(visit: Visit, service: Served, home: Path) -> None:
    page = visit(service)
    page.click("[data-sample='1.png']")
    await_answer(page)
    assert says_the_same(page, asked(service, home / "queries" / "class00" / "1.png"))


def test_a_newer_question_replaces_an_older_one(
    visit: Visit, service: Served, by_verdict: dict[str, Path]
) -> None:
    page = visit(service, expected="ERR_ABORTED")
    with held(page, "**/v1/search?*"):
        page.set_input_files("#file", by_verdict["no_match"])
        expect(page.locator("#progress")).to_be_visible()
        choose(page, by_verdict["match"])
    assert says_the_same(page, asked(service, by_verdict["match"]))
    expect(page.locator("#progress")).to_be_hidden()


def test_a_question_can_be_called_off(
    visit: Visit, service: Served, by_verdict: dict[str, Path]
) -> None:
    page = visit(service, expected="ERR_ABORTED")
    with held(page, "**/v1/search?*"):
        page.set_input_files("#file", by_verdict["match"])
        assert page.get_attribute("#answer", "aria-busy") == "true"
        page.click("#cancel")
    assert page.get_attribute("body", "data-state") == "ready"
    assert page.get_attribute("#answer", "aria-busy") == "false"
