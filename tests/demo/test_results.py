"""The choice of three queries."""

from pathlib import Path

from surefind.demo.run import best_with, foreign_question
from surefind.images.catalog import Catalog
from surefind.search.hits import Hit, SearchResult


def result(verdict: str, *, confidence: float = 0.5, label: str = "a") -> SearchResult:
    hit = Hit("1", None, 0.1, 0.2, 0.1, 0.1, {"label": label})
    return SearchResult("query", (hit,), 0.1, "mean", confidence=confidence, verdict=verdict, novelty_p_value=0.5)


class Answering:
    """An index with a given verdict on the chess board; any other picture is foreign."""

    def __init__(self, board: str) -> None:
        self.board = board

    def search(self, query: bytes | Path, k: int) -> SearchResult:
        return result("no_match" if isinstance(query, Path) else self.board)


def test_the_verdict_counts_before_the_number():
    results = [result("unsure"), result("match"), result("match"), result("no_match")]
    assert best_with(results, "match", by=[0.9, 0.3, 0.4, 1.0]) == 2
    assert best_with(results, "no_match", by=[0.9, 0.3, 0.4, -1.0]) == 3
    assert best_with(results[:1] * 2, "match", by=[0.1, 0.2]) == 1  # none has it


def test_the_foreign_query_is_a_chess_board_or_the_strangest_symbol(tmp_path: Path):
    for name in ("one.png", "two.png"):
        (tmp_path / name).write_text(name)
    symbols, path = Catalog(tmp_path, ("one.png", "two.png")), tmp_path / "foreign.png"
    theirs = [result("unsure"), result("no_match")]
    asked = foreign_question(Answering("no_match"), symbols, theirs, path)
    assert "chess board" in asked.about
    assert path.read_bytes().startswith(b"\x89PNG")
    assert (asked.label, asked.as_dict()["right"]) == (None, False)
    asked = foreign_question(Answering("unsure"), symbols, theirs, path)
    assert "symbols" in asked.about
    assert path.read_text() == "two.png"
