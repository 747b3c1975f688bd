"""How rarely a query that belongs to the gallery is as strange as this one."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from surefind.errors import InvalidArgument

Values = NDArray[np.float64]

MOST = 2000  # values kept


@dataclass(frozen=True)
class Novelty:
    """How strange calibration queries are that belong to the gallery; higher is stranger."""

    reference: tuple[float, ...]  # ascending; some of the values where there were very many
    queries: int  # values there were

    def p_value(self, values: Values) -> Values:
        r"""Conformal p-value of each query: small says that it does not belong, (Q,).

            p = (1 + #{reference >= value}) / (n + 1)

        For a query that belongs, P(p <= a) <= a for every a. Where values were left out, all those
        between two kept ones count as if they were as strange as the value: p is then too large by
        less than 1 / (values kept - 1), never too small.
        """
        strange = np.asarray(values, float)
        if strange.ndim != 1 or np.isnan(strange).any():
            raise _refused("values", strange, "one number per query, none of them nan")
        kept, rank = self._table
        above = self.queries - rank[np.searchsorted(kept, strange, side="left")]
        return np.asarray((1 + above) / (self.queries + 1))

    @cached_property
    def _table(self) -> tuple[Values, NDArray[np.int64]]:
        """The values; and how many of all lie at or below the last one passed, if any."""
        kept = np.asarray(self.reference, float)
        return kept, np.r_[0, _kept_places(self.queries, len(kept)) + 1]


def novelty_of(values: Values) -> Novelty:
    """From the novelty of calibration queries that belong to the gallery, (Q,)."""
    strange = np.asarray(values, float)
    if strange.ndim != 1 or not strange.size or not np.isfinite(strange).all():
        raise _refused("values", strange, "one finite number per query, of at least one query")
    places = _kept_places(len(strange), min(len(strange), MOST))
    return Novelty(tuple(np.sort(strange)[places].tolist()), len(strange))


def _kept_places(queries: int, kept: int) -> NDArray[np.int64]:
    """Evenly spaced from the least to the most strange."""
    return np.asarray(np.linspace(0, queries - 1, kept).round(), np.int64)


def _refused(name: str, values: Values, expected: str) -> InvalidArgument:
    return InvalidArgument(
        name,
        expected=expected,
        got=f"shape {values.shape}, {int((~np.isfinite(values)).sum())} not finite",
        fix="leave out queries whose evidence is not known",
    )
