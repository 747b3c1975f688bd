"""One test for each state of the page; the other files have the details, marked slow."""

from pathlib import Path

import pytest
from accessibility import contrast_problems, scrolls_sideways
from pages import Visit, await_answer, choose, in_percent, items, meters, neighbour_items, search, shows_result
from playwright.sync_api import Page, expect
from servers import Served

from surefind.serve.gallery import item_of

VERDICTS = ("match", "unsure", "no_match")


@pytest.mark.parametrize("verdict", VERDICTS)
def test_an_uploaded_file_shows_the_label_and_confidences_of_the_server(
    visit: Visit, service: Served, by_verdict: dict[str, Path], verdict: str
) -> None:
    page, path = visit(service, height=2400), by_verdict[verdict]
    assert "144 images" in page.inner_text("h1")
    choose(page, path)
    answer, text = search(service, path), page.inner_text("#verdict")
    assert answer["verdict"] == verdict and shows_result(page, answer)
    assert answer["calibrated"] in text
    assert (
        page.inner_text("#verdict h2")
        == {
            "match": f"{answer['label']}, {in_percent(answer['label_confidence'])}",
            "unsure": "One of these",
            "no_match": "No match: not in the catalogue",
        }[verdict]
    )
    rows = page.locator(".label-bars li:not(.more-labels)").all_inner_texts()
    likely = answer["label_set"][:5] if verdict == "unsure" else []
    wanted = [[label, in_percent(answer["labels"][label])] for label in likely]
    assert [row.split("\n") for row in rows] == wanted
    sure = meters(page)
    assert sure == sorted(sure, reverse=True)  # the bars fall from top to bottom
    sizes = page.locator("#asked-picture img, #hits img").evaluate_all(
        "all => Promise.all(all.map(one => one.decode().then(() => one.naturalWidth)))"
    )
    assert len(sizes) == 13 and all(sizes)
    shown = page.inner_text("#asked")
    assert path.name in shown and "20 \N{MULTIPLICATION SIGN} 20" in shown


def test_an_uncalibrated_index_shows_no_percentage_but_the_command(
    visit: Visit, plain: Served, by_verdict: dict[str, Path]
) -> None:
    page = visit(plain)
    assert "%" not in all_texts(page)
    command = "surefind calibrate index DATA"
    expect(page.locator("#lead").get_by_text(command)).to_be_visible()
    choose(page, by_verdict["match"])
    expect(page.locator("#uncertainty-words")).not_to_be_empty()
    assert len(items(page)) == 12
    assert "%" not in all_texts(page)
    assert page.get_attribute("#verdict", "data-verdict") == "none"
    assert page.locator("[role=meter], #hits li.below").count() == 0
    assert page.is_hidden("#threshold")
    expect(page.locator("#verdict").get_by_text(command)).to_be_visible()
    page.click("#tab-evaluation")
    expect(page.locator("#evaluation").get_by_text(command)).to_be_visible()
    report = page.inner_text("#report")
    assert "surefind evaluate MODEL DATA -o REPORT" in report
    assert "surefind serve index --report REPORT" in report


def all_texts(page: Page) -> str:
    """Text of all views, visible or not, and of the attributes that screen readers use."""
    return page.evaluate(
        """() => document.body.textContent + [...document.querySelectorAll("*")].flatMap(
            one => ["aria-label", "aria-valuetext", "title", "alt"].map(
                name => one.getAttribute(name) ?? "")).join(" ")"""
    )


def test_the_evaluation_shows_quality_guarantees_and_the_report(visit: Visit, service: Served) -> None:
    page = visit(service, "/#view-evaluation")
    made = service.client.get("/v1/info").json()["calibration"]
    quality, text = made["quality"], page.inner_text("#evaluation")
    for part in (made["origin"]["created"][:10], made["guaranteed"], made["shown"], made["no_match"]):
        assert part.replace("`", "") in text
    assert "288 labelled queries of 24 classes" in text
    plot = page.locator("#evaluation svg[role=img]").first
    assert plot.locator("circle").count() == len(made["reliability"])
    assert plot.get_attribute("aria-label").startswith("Reliability diagram")
    for name in ("auroc", "ece", "floor", "baseline_auroc", "ratio_auroc", "vote_auroc"):
        assert f"{round(100 * quality[name], 1):g} %" in text
    expect(page.frame_locator("#report iframe").locator("h1")).to_be_visible()
    assert page.get_attribute("#report iframe", "sandbox") == ""


def test_the_map_is_navigated_by_keys_and_enter_searches(visit: Visit, service: Served) -> None:
    page = visit(service, "/#view-map")
    expect(page.locator("#map")).to_be_visible()
    page.focus("#map")
    described = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        described.append(page.inner_text("#map-point"))
    assert len(set(described)) > 1 and all("class" in text for text in described)
    assert page.is_visible("#map-card")
    image = described[-1].split(": ")[1].split(",")[0]
    page.keyboard.press("Enter")
    await_answer(page)
    assert page.get_attribute("#tab-search", "aria-selected") == "true"
    assert items(page) == neighbour_items(service, item_of(image))


def test_an_index_of_vectors_is_searched_with_its_own_images(visit: Visit, vectors: Served) -> None:
    page = visit(vectors)
    assert page.is_hidden("#drop") and page.is_disabled("#file")
    assert "POST /v1/search/vector" in page.inner_text("#lead")
    page.locator("[data-sample]").first.click()
    await_answer(page)
    assert len(items(page)) == len(meters(page)) == 12


def test_an_empty_index_shows_the_command_that_fills_it(visit: Visit, empty: Served) -> None:
    page = visit(empty)
    assert "no images yet" in page.inner_text("h1")
    assert "surefind index PHOTOS -o new" in page.inner_text("#lead")
    assert page.is_hidden("#drop") and page.is_disabled("#file")
    page.click("#tab-map")
    expect(page.locator("#map-words")).to_contain_text("no images")
    assert page.is_hidden("#map")


def test_a_broken_file_is_explained_on_a_phone_and_the_next_one_searched(
    visit: Visit, service: Served, by_verdict: dict[str, Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(by_verdict["match"].read_bytes()[:200])
    page = visit(service, expected="422", width=360)
    choose(page, by_verdict["match"])
    page.set_input_files("#file", broken)
    refused = service.client.post("/v1/search", content=broken.read_bytes())
    assert refused.status_code == 422
    error = refused.json()["error"]
    expect(page.locator("#error")).to_contain_text(error["problem"][1:])
    assert error["fix"][1:] in page.inner_text("#error")
    assert items(page) == [] and page.inner_text("#verdict") == ""  # no old hits beside it
    choose(page, by_verdict["match"])
    assert page.inner_text("#error") == ""
    assert page.get_attribute("#verdict", "data-verdict") == "match"
    assert not scrolls_sideways(page) and contrast_problems(page) == []


def test_the_page_of_a_server_with_a_token_opens_after_signing_in(
    visit: Visit, closed: Served, token: str, by_verdict: dict[str, Path]
) -> None:
    page = visit(closed, expected="status of 401|ERR_ABORTED", guest="who signs in")
    expect(page.locator("#sign-in")).to_be_visible()
    assert page.is_hidden("#main")
    assert "index" not in page.inner_text("#foot-words") and page.inner_text("#which") == ""
    assert page.evaluate("document.activeElement.id") == "token"
    page.fill("#token", "a-token-of-other-letters")
    page.click("#sign-in-button")
    expect(page.locator("#sign-in-error")).to_have_text("Wrong token.")
    assert page.is_hidden("#main")
    page.fill("#token", token)
    page.keyboard.press("Enter")
    expect(page.locator("body[data-state=ready]")).to_be_attached()
    assert page.is_hidden("#sign-in")
    kept = page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]")
    assert kept == ["", 0, 0]  # scripts cannot read the session
    page.reload()
    expect(page.locator("body[data-state=ready]")).to_be_attached()
    choose(page, by_verdict["match"])
    assert page.get_attribute("#verdict", "data-verdict") == "match"
