"""Report page: complete, self-contained and safe."""

import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from html_tags import Tags
from PIL import Image

from surefind.reports import report as page
from surefind.reports.report import write_report
from surefind.reports.result import EvalResult, QueryTable
from surefind.reports.tables import decimal, percent, short
from surefind.validation import parse

Evaluation = tuple[EvalResult, QueryTable]

HOSTILE = "<img src=x onerror=alert(1)>.png"


@pytest.fixture(scope="module")
def html(evaluation: Evaluation, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report(tmp_path_factory.mktemp("report") / "new", *evaluation).read_text()


def without_figures(result: EvalResult, queries: QueryTable) -> str:
    return page.render(result, queries, figures={})


def with_names(queries: QueryTable, name: str) -> QueryTable:
    """Every query, hit and label gets this name."""
    renamed = {
        column: np.full(len(queries), name)
        for column in queries.columns
        if column in ("id", "path", "label") or ".hit_" in column
    }
    return QueryTable({**queries.columns, **renamed})


def numbered(values: Any, numbers: Iterator[int]) -> Any:
    """The same, with another number at every place that measures something."""
    if isinstance(values, dict):
        return {name: numbered(value, numbers) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [numbered(value, numbers) for value in values]
    return next(numbers) / 1000 if isinstance(values, float) else values


def numbers_in(values: Any) -> Iterator[float]:
    if isinstance(values, dict):
        values = values.values()
    if isinstance(values, float):
        yield values
    elif not isinstance(values, str | int | None):
        for value in values:
            yield from numbers_in(value)


def test_every_number_of_the_result_is_on_the_page(evaluation: Evaluation) -> None:
    result, queries = evaluation
    values = numbered(dataclasses.asdict(result), itertools.count(101))
    shown = set(re.findall(r"[\d.]+", without_figures(parse(EvalResult, values, where="results"), queries)))
    measured = [*numbers_in(values["rankings"]), *numbers_in(values["ladder"])]
    assert len(set(measured)) > 500
    missing = [v for v in measured if not {percent(v), decimal(v), short(v)} & shown]
    assert not missing


def test_origin_is_on_the_page_but_not_the_folders_of_the_images(evaluation: Evaluation) -> None:
    result, queries = evaluation
    about, html = result.about, without_figures(result, queries)
    text = Tags(html).text
    assert "The top hit is right for 60.0 % of 120 queries [58.0, 62.0]." in text
    assert "surest 80 % of them, 30.0 % of the answers are wrong instead of 40.0 %" in text
    for fact in (about.protocol, about.command, about.fingerprint, about.date, "torch 2.13.0"):
        assert fact in text
    for exclusion in result.exclusions:
        assert exclusion.reason in text and all(path in text for path in exclusion.examples)
    assert about.root not in html and about.foreign_root not in html


def test_black_bars_that_separate_foreign_images_are_named_at_the_top(evaluation) -> None:
    result, queries = evaluation
    for auroc, named in ((0.99, True), (0.5, False)):
        about = dataclasses.replace(result.about, bars_auroc=auroc)
        html = without_figures(dataclasses.replace(result, about=about), queries)
        baseline = f"black bars alone separate foreign images with AUROC {auroc:.3f}"
        assert (baseline in html.split("<main>")[0]) == named
        assert baseline in html


def test_the_page_is_well_formed_and_its_headings_skip_no_level(html: str) -> None:
    tags = Tags(html)
    assert tags.open == []
    levels = [int(tag[1]) for tag in tags.used if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_the_page_loads_nothing_from_elsewhere(html: str) -> None:
    tags = Tags(html)
    assert all(address.startswith(("data:image/", "#")) for address in tags.addresses)
    assert not {"script", "link", "iframe", "object", "base"} & set(tags.used)
    assert "default-src 'none'" in html
    assert not re.search(r"@import|url\(", html[html.index("<style>") : html.index("</style>")])


@pytest.mark.parametrize("ground", ["ground", "card", "shade"])
@pytest.mark.parametrize("ink", ["text", "quiet", "link", "right", "wrong"])
def test_text_is_legible_in_both_schemes(html: str, ink: str, ground: str) -> None:
    """WCAG AA: a contrast of 4.5."""

    def luminance(colour: str) -> float:
        parts = (int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4))
        linear = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return float(np.dot([0.2126, 0.7152, 0.0722], list(linear)))

    inks, grounds = (re.findall(rf"--{name}: #(\w{{6}});", html) for name in (ink, ground))
    assert len(inks) == len(grounds) == 2  # light, dark
    for pair in zip(inks, grounds, strict=True):
        dark, light = sorted(map(luminance, pair))
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_hostile_names_are_text(evaluation: Evaluation, tmp_path: Path) -> None:
    result, queries = evaluation
    Image.new("RGB", (30, 20)).save(Path(result.about.root) / HOSTILE)
    about = dataclasses.replace(result.about, model=HOSTILE, data=HOSTILE, command=HOSTILE, protocol=HOSTILE)
    path = write_report(tmp_path / "out", dataclasses.replace(result, about=about), with_names(queries, HOSTILE))
    tags = Tags(path.read_text())
    assert HOSTILE in tags.text
    assert not [name for name in tags.attributes if name.startswith("on")]
    assert "x" not in tags.addresses


def test_missing_and_broken_pictures_say_so(evaluation: Evaluation) -> None:
    result, queries = evaluation
    (Path(result.about.root) / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    lost = Tags(without_figures(result, with_names(queries, "nowhere.png")))
    broken = Tags(without_figures(result, with_names(queries, "broken.png")))
    assert lost.text.count("no picture: no such file") == 24 * 6
    assert broken.text.count("no picture:") == 24 * 6


def test_without_variance_and_foreign_queries_nothing_is_said_of_them(without_variance) -> None:
    html = without_figures(*without_variance)
    assert "This model has no learned uncertainty" in html
    assert "Calibration error, by definition" not in html
    assert "OOD AUROC" not in html and "black bars" not in html
    assert Tags(html).open == []


def test_what_could_not_be_measured_is_a_dash(evaluation: Evaluation) -> None:
    result, queries = evaluation
    values = dataclasses.asdict(result)
    for part in ("rankings", "ladder"):
        values[part] = numbered(values[part], itertools.repeat(float("nan")))
    html = without_figures(parse(EvalResult, values, where="results"), queries)
    assert "nan" not in Tags(html).text.lower()


@pytest.mark.parametrize(
    ("queries", "classes", "words"),
    [
        (72, 6, "the 6 classes, each with all its queries, were resampled with replacement"),
        (72, 0, "the queries were resampled with replacement"),
        (50_000, 10_000, "Only 5 % of them were resampled, and the widths scaled to all."),
    ],
)
def test_the_page_says_what_was_resampled(evaluation, queries: int, classes: int, words: str):
    result, table = evaluation
    about = dataclasses.replace(result.about, queries=queries, resampled_classes=classes)
    told = without_figures(dataclasses.replace(result, about=about), table)
    assert words in told
    assert ("widths scaled" in told) == (queries > 4000)
