"""Three queries of the demo: easy, hard, foreign."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from surefind.confidence.conformal import MATCH, NO_MATCH, UNSURE
from surefind.images.catalog import Catalog
from surefind.reports.rankings import Embedded
from surefind.search.hits import SearchResult
from surefind.search.index import Index
from surefind.storage import make_writable, write_whole

SHOWN = 3  # hits of each query


@dataclass(frozen=True)
class Question:
    """A query, its true label, and the result."""

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


def ask(index: Index, kept_out: Catalog, symbols: Embedded, folder: Path) -> tuple[tuple[Question, ...], int]:
    """Search with all images; write one of each verdict to the folder and search with it again.

    Also returns how many of the symbols have no match.
    """
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
    return tuple(questions), sum(result.verdict == NO_MATCH for result in foreign)


def foreign_question(index: Index, symbols: Catalog, theirs: list[SearchResult], path: Path) -> Question:
    """Search with a chess board; if it passes for a glyph, with the strangest of the symbols."""
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
