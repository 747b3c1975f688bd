"""Three queries to show: one easy, one hard, one foreign."""

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from surefind.confidence.conformal import MATCH, NO_MATCH, UNSURE
from surefind.images.catalog import Catalog
from surefind.reports.protocol import Embedded
from surefind.search.hits import SearchResult
from surefind.search.index import Index
from surefind.storage import make_writable, write_whole

SHOWN = 3  # hits of each


@dataclass(frozen=True)
class Question:
    """A query, what it truly shows, and what was answered."""

    kind: str  # easy, hard or foreign
    about: str
    label: str | None  # none where nothing in the index can be right
    path: Path
    result: SearchResult

    def as_dict(self) -> dict[str, Any]:
        first = self.result.hits[0]
        label = first.metadata.get("label")
        return {
            "kind": self.kind,
            "about": self.about,
            "path": str(self.path),
            "label": self.label,
            "verdict": self.result.verdict,
            "confidence": self.result.confidence,
            "novelty_p_value": self.result.novelty_p_value,
            "first_hit": first.id,
            "first_label": label,
            "right": self.label is not None and label == self.label,
        }


def ask(
    index: Index, kept_out: Catalog, symbols: Embedded, folder: Path
) -> tuple[tuple[Question, ...], dict[str, Any]]:
    """Search all of them; of each verdict one is written to the folder and searched again."""
    own = index.search(index.encoder.encode(kept_out.files), SHOWN)
    foreign = index.search(symbols.embeddings, SHOWN)
    easy = best_with(own, MATCH, by=[result.confidence or 0.0 for result in own])
    hard = best_with(own, UNSURE, by=kept_out.difficulty)
    make_writable(folder)
    questions = []
    for kind, about, row in (
        ("easy", "the glyph, of those kept out, that it is surest of", easy),
        ("hard", "the most spoilt of those it is unsure of", hard),
    ):
        path = folder / f"{kind}.png"
        write_whole(path, kept_out.file(row).read_bytes())
        answer = index.search(path, SHOWN)
        questions.append(Question(kind, about, kept_out.labels[row], path, answer))
    questions.append(foreign_question(index, symbols.catalog, foreign, folder / "foreign.png"))
    return tuple(questions), count_verdicts(own, kept_out, foreign)


def foreign_question(
    index: Index, symbols: Catalog, theirs: list[SearchResult], path: Path
) -> Question:
    """Ask with a chess board; if that passes for a glyph, with the strangest of the symbols."""
    squares = (np.indices((64, 64)) // 8).sum(axis=0) % 2
    file = io.BytesIO()
    Image.fromarray((255 * squares).astype(np.uint8)).save(file, "PNG")
    about, picture = "a chess board, which is no glyph at all", file.getvalue()
    if index.search(picture, SHOWN).verdict != NO_MATCH:
        strange = [-(result.novelty_p_value or 0.0) for result in theirs]
        about = "the strangest of the symbols, which are no letters"
        picture = symbols.file(best_with(theirs, NO_MATCH, by=strange)).read_bytes()
    write_whole(path, picture)
    return Question("foreign", about, None, path, index.search(path, SHOWN))


def best_with(results: Sequence[SearchResult], verdict: str, *, by: Sequence[float]) -> int:
    """Return the highest of those with the verdict; of all, if none has it."""
    return max(range(len(results)), key=lambda row: (results[row].verdict == verdict, by[row]))


def count_verdicts(
    own: Sequence[SearchResult], kept_out: Catalog, theirs: Sequence[SearchResult]
) -> dict[str, Any]:
    """Count verdicts of glyphs, matches among them that are right, and symbols called foreign."""
    counts = Counter(result.verdict for result in own)
    return {
        "kept_out": {verdict: counts[verdict] for verdict in (MATCH, UNSURE, NO_MATCH)},
        "right_matches": sum(
            result.verdict == MATCH and result.hits[0].metadata.get("label") == label
            for result, label in zip(own, kept_out.labels, strict=True)
        ),
        "symbols": len(theirs),
        "foreign_symbols": sum(result.verdict == NO_MATCH for result in theirs),
    }
