"""The table of the demo, the sentences that follow from it, and the choice of three queries."""

from pathlib import Path

import numpy as np
import pytest

from surefind.demo.results import (
    HitConfidence,
    Row,
    best_with,
    compared,
    count_verdicts,
    foreign_question,
    lead,
)
from surefind.images.catalog import Catalog
from surefind.metrics.intervals import Estimate
from surefind.search.hits import Hit, SearchResult

CLASSES, EACH = 40, 25


@pytest.fixture
def groups() -> np.ndarray:
    return np.repeat(np.arange(CLASSES), EACH)


def noisy(noise: float, *, seed: int = 0) -> HitConfidence:
    """The truth, and a probability that knows it but for noise."""
    draw = np.random.default_rng(seed)
    right = np.random.default_rng(7).random(CLASSES * EACH) < 0.5
    blurred = right + noise * draw.standard_normal(len(right))
    sure = 1 / (1 + np.exp(-4 * (blurred - 0.5)))
    return HitConfidence(sure, right, sure)


def test_a_row_counts_what_it_says(groups):
    row = noisy(0.01).row("encoder", "asked", groups=groups, precision=0.8)
    right = noisy(0.01).right.mean()
    assert row.recall == right
    assert row.auroc == 1
    assert row.answered >= right  # all right ones can be answered, and a few others
    assert row.ece == pytest.approx(1 / (1 + np.exp(2)), abs=0.01)
    assert 0 < row.floor < 0.02


def test_a_lead_is_the_difference_and_its_interval_holds_it(groups):
    better, worse = noisy(0.5), noisy(1.5, seed=3)
    ahead = lead(better, worse, groups, seed=0)
    first, second = (
        quantity.row("", "", groups=groups, precision=0.8) for quantity in (better, worse)
    )
    assert ahead.value == pytest.approx(first.auroc - second.auroc)
    assert 0 < ahead.low < ahead.value < ahead.high
    assert lead(worse, better, groups, seed=0).high < 0
    assert lead(better, better, groups, seed=0) == Estimate(0, 0, 0)


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (
            Estimate(0.1, 0.05, 0.2),
            "e: a (AUROC 0.800) is better than the b (0.700); the difference is +0.100, over",
        ),
        (Estimate(0.1, -0.05, 0.2), " is no better than the b "),
        (Estimate(-0.1, -0.2, -0.05), " is worse than the b "),
    ],
)
def test_the_sentence_is_honest(ahead: Estimate, words: str):
    first, second = (
        Row("e", name, 0.5, value, None, None, 0) for name, value in (("a", 0.8), ("b", 0.7))
    )
    assert words in compared(first, second, ahead)


# the queries


def result(verdict: str, *, confidence: float = 0.5, label: str = "a") -> SearchResult:
    hit = Hit("1", None, 0.1, 0.2, 0.1, 0.1, {"label": label})
    return SearchResult(
        "query", (hit,), 0.1, "mean", confidence=confidence, verdict=verdict, novelty_p_value=0.5
    )


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


def test_verdicts_are_counted_and_matches_checked():
    own = [result("match", label="a"), result("match", label="b"), result("unsure", label="c")]
    kept_out = Catalog(Path(), ("1", "2", "3"), labels=("a", "a", "c"))
    assert count_verdicts(own, kept_out, [result("no_match"), result("unsure")]) == {
        "kept_out": {"match": 2, "unsure": 1, "no_match": 0},
        "right_matches": 1,
        "symbols": 2,
        "foreign_symbols": 1,
    }
