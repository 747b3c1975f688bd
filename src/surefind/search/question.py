"""What is asked of an index."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefind.choices import check_choice
from surefind.engines.engine import Engine
from surefind.engines.where import Where
from surefind.errors import InvalidArgument
from surefind.functional.search_bounds import RANKINGS

Wanted = Where | Sequence[str] | str | None


@dataclass(frozen=True)
class Question:
    """How many, in which order, of which rows, and what else to tell about them."""

    k: int
    ranking: str
    where: Where | None = None
    radius: float | None = None  # a distance, not squared
    expand: int = 0  # neighbours that help the query

    def __post_init__(self) -> None:
        check_choice("ranking", self.ranking, RANKINGS)
        least_of: dict[str, tuple[object, int]] = {"k": (self.k, 1), "expand": (self.expand, 0)}
        for name, (value, least) in least_of.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InvalidArgument(
                    name,
                    expected=f"a whole number of at least {least}",
                    got=repr(value),
                    fix=f"e.g. {name}=5",
                )
        if self.radius is not None and not 0 < self.radius < np.inf:
            raise InvalidArgument(
                "radius", expected="a positive number", got=repr(self.radius), fix="e.g. radius=1"
            )


def check_most(question: Question, engine: Engine, *, inside: bool = False) -> None:
    """Refuse to ask for more rows than the engine can return; for all there are is no error.

    A query that is inside the index is found as well, so that one hit less can be asked for.
    """
    most = engine.most - inside
    asked = max(question.k, question.expand)
    if asked > most and engine.count(question.where) > engine.most:
        raise InvalidArgument(
            "k" if question.k == asked else "expand",
            expected=f"at most {most:,}, the limit of this index's engine",
            got=f"{asked:,}",
            fix="ask for fewer, or choose rows with where",
        )


def wanted_rows(where: Wanted) -> Where | None:
    """Conditions as they are, or as they are written."""
    if where is None or isinstance(where, Where):
        return where
    return Where.parse([where] if isinstance(where, str) else where)


def uncalibrated(
    question: Question, *, native: str, views: int = 1, folder: str | None = None
) -> str | None:
    """Why an answer has no confidence; `folder` is that of an index that is not calibrated."""
    if folder is not None:
        return f"not calibrated yet: surefind calibrate {folder} DATA"
    reasons = {
        "where": question.where is not None,
        "expand": question.expand > 0,
        f"ranking={question.ranking}": question.ranking != native,
        "several views": views > 1,
    }
    for what, asked in reasons.items():
        if asked:
            return f"no confidence with {what}: the calibration is of plain searches"
    return None
