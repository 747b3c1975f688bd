"""Which of many queries are shown, and how many come to what."""

from pathlib import Path

from surefind.demo.results import best_with, count_verdicts, foreign_question
from surefind.images.catalog import Catalog
from surefind.search.hits import Hit, SearchResult


def result(verdict: str, *, confidence: float = 0.5, label: str = "a") -> SearchResult:
    hit = Hit("1", None, 0.1, 0.2, 0.1, 0.1, {"label": label})
    return SearchResult(
        "query", (hit,), 0.1, "mean", confidence=confidence, verdict=verdict, novelty_p_value=0.5
    )


class Answering:
    """An index that calls the chess board what it is told to; any other picture is foreign."""

    def __init__(self, board: str) -> None:
        self.board = board

    def search(self, query: bytes | Path, k: int) -> SearchResult:
        return result("no_match" if isinstance(query, Path) else self.board)


def test_the_verdict_counts_before_the_number():
    results = [result("unsure"), result("match"), result("match"), result("no_match")]
    assert best_with(results, "match", by=[0.9, 0.3, 0.4, 1.0]) == 2
    assert best_with(results, "no_match", by=[0.9, 0.3, 0.4, -1.0]) == 3


def test_where_nothing_has_the_verdict_the_number_decides():
    assert best_with([result("unsure"), result("unsure")], "match", by=[0.1, 0.2]) == 1


def test_a_chess_board_is_foreign(tmp_path: Path):
    path = tmp_path / "foreign.png"
    asked = foreign_question(Answering("no_match"), Catalog(tmp_path, ()), [], path)
    assert "chess board" in asked.about
    assert path.read_bytes().startswith(b"\x89PNG")
    assert (asked.label, asked.as_dict()["right"]) == (None, False)


def test_if_it_passes_for_a_glyph_a_symbol_is_asked(tmp_path: Path):
    for name in ("one.png", "two.png"):
        (tmp_path / name).write_text(name)
    symbols = Catalog(tmp_path, ("one.png", "two.png"))
    theirs, path = [result("unsure"), result("no_match")], tmp_path / "foreign.png"
    asked = foreign_question(Answering("unsure"), symbols, theirs, path)
    assert "symbols" in asked.about
    assert path.read_text() == "two.png"


def test_verdicts_are_counted_and_matches_checked():
    own = [result("match", label="a"), result("match", label="b"), result("unsure", label="c")]
    kept_out = Catalog(Path(), ("1", "2", "3"), labels=("a", "a", "c"))
    assert count_verdicts(own, kept_out, [result("no_match"), result("unsure")]) == {
        "kept_out": {"match": 2, "unsure": 1, "no_match": 0},
        "right_matches": 1,
        "symbols": 2,
        "foreign_symbols": 1,
    }
