"""Results for people and for programs."""

import csv
import io
import json
import re

import pytest
from calibrations import make_calibration
from rich.cells import cell_len
from rich.console import Console

from surefind.cli.rendering import COLUMNS, hits_table, query_heading, result_as_csv
from surefind.confidence.conformal import VERDICTS
from surefind.search.hits import Hit, SearchResult
from surefind.text import printable

LONG = "holidays/" * 20 + "the-last.jpg"


def hit(name: str = "a.jpg", **changed) -> Hit:
    facts = {
        "path": f"/photos/{name}",
        "distance": 0.0123,
        "expected_distance": 1.5,
        "std": 0.25,
        "var": 0.01,
        "p_within": None,
        "metadata": {"label": "cat"},
        "label": "cat",
    }
    return Hit(id=name, **facts | changed)


def result(*hits: Hit, **changed) -> SearchResult:
    return SearchResult(**{"query": "q.jpg", "hits": hits, "query_var": 0.02, "ranking": "expected"} | changed)


def drawn(renderable: object, width: int = 100, **options) -> str:
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(renderable)
    return console.file.getvalue()


def test_a_row_shows_what_is_known_about_a_hit():
    lines = drawn(hits_table(result(hit(), hit("b.jpg")))).splitlines()
    words = [" ".join(line.split()) for line in lines]
    assert words[0] == "# id label distance expected ± std"
    assert words[2] == "1 a.jpg cat 0.01230 1.500 ± 0.25"
    assert lines[3].split()[:2] == ["2", "b.jpg"]
    assert "label" not in drawn(hits_table(result(hit(label=None))))
    whole = drawn(hits_table(result(hit(p_within=0.5), hit(confidence=0.9999), hit(confidence=0))))
    assert "P(within)" in whole and "confidence" in whole
    assert "50 %" in whole and "> 99 %" in whole and "< 1 %" in whole  # never certain


def test_markup_emoji_codes_and_escapes_in_names_mean_nothing():
    name = "[red]x[/] :smile:\x1b[31m\u202e.jpg"
    found = result(hit(name, label="[bold]b"), query="[link=x]q")
    shown = drawn(hits_table(found), force_terminal=True, color_system="truecolor", _environ={})
    assert "[red]x[/] :smile:�[31m�.jpg" in shown
    assert "[bold]b" in shown
    assert "[link=x]q" in drawn(query_heading(found))


def test_a_long_id_is_folded_and_the_table_fits():
    found = result(hit(LONG, p_within=0.5), hit("写真/" * 50), hit())
    lines = drawn(hits_table(found), 72).splitlines()
    assert max(map(cell_len, lines)) <= 72
    assert "".join(lines).count("y") == LONG.count("y")  # no letter is lost


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_heading_shows_the_verdict_in_colour(verdict: str):
    found = result(hit(), verdict=verdict, confidence=0.4, novelty_p_value=0.003, show=1)
    word = verdict.replace("_", " ")
    plain = drawn(query_heading(found)).splitlines()
    assert plain[2].startswith(f"{word}: ")
    assert plain[3].startswith("confidence 40 % that the first hit is a match")
    coloured = drawn(query_heading(found), force_terminal=True, color_system="standard", _environ={})
    assert re.search(rf"\x1b\[1;3\dm{word}\x1b\[0m", coloured)


def test_the_heading_shows_how_many_hits_to_check():
    found = result(hit(), hit("b.jpg"), verdict="unsure", confidence=0.4, show=2)
    text = drawn(query_heading(found, calibration=make_calibration()))
    assert "check the first 2 hits: they contain a match for at least 90 %" in text


def test_csv_has_a_line_per_hit_that_reads_back():
    name = 'comma, "quote"\nline.jpg'
    found = [result(hit(name, p_within=0.5)), result(query="nothing"), result(hit("b"), hit("c"))]
    rows = list(csv.DictReader(io.StringIO(",".join(COLUMNS) + "\n" + "".join(map(result_as_csv, found)))))
    assert [row["id"] for row in rows] == [name, "b", "c"]
    assert [row["rank"] for row in rows] == ["1", "1", "2"]
    assert float(rows[0]["expected_distance"]) == 1.5
    assert (rows[0]["p_within"], rows[1]["p_within"], rows[0]["confidence"]) == ("0.5", "", "")
    assert json.loads(rows[0]["metadata"]) == {"label": "cat"}
    assert (rows[0]["novelty_p_value"], rows[0]["show"], rows[0]["uncalibrated"]) == ("", "", "")
    assert tuple(rows[0]) == COLUMNS


@pytest.mark.parametrize("char", ["\x1b", "\x9b", "\n", "\t", "\x7f", "\u202e", "\u2028", "\udc80"])
def test_what_a_terminal_obeys_or_cannot_write_is_replaced(char: str):
    assert printable(f"a{char}b 写真 ñ 👩‍👧 [red]") == "a�b 写真 ñ 👩‍👧 [red]"
