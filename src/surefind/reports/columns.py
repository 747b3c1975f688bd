"""The columns of the table of queries."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.engines.exact import Neighbours
from surefind.images.catalog import Catalog
from surefind.images.matches import Mask
from surefind.reports.encoded import Embedded
from surefind.reports.found import Found
from surefind.reports.protocol import Protocol
from surefind.reports.queries import SHOWN
from surefind.reports.signals import Signals

Columns = dict[str, NDArray[Any]]


class Asked(NamedTuple):
    """What one group of queries found in the gallery."""

    neighbours: Neighbours
    signals: Signals


def who_asks(catalog: Catalog, protocol: Protocol, foreign: Embedded | None) -> Columns:
    """Each query by its names, own ones first."""
    queries = catalog.select(protocol.queries)
    strangers = foreign.catalog if foreign else catalog.select([])
    blank = ("",)
    return {
        "id": _texts(queries.ids, strangers.ids),
        "path": _texts(queries.paths, strangers.paths),
        "label": _texts(
            queries.labels or blank * len(queries), strangers.labels or blank * len(strangers)
        ),
        "foreign": np.arange(len(queries) + len(strangers)) >= len(queries),
        "n_matches": np.concatenate([protocol.n_matches, np.zeros(len(strangers), np.int64)]),
    }


def what_was_found(
    ours: Asked,
    theirs: Asked | None,
    hits: Mask,
    found: Found,
    catalog: Catalog,
    protocol: Protocol,
) -> Columns:
    """The columns of one ranking, foreign queries last."""
    both = [ours] if theirs is None else [ours, theirs]
    strangers = len(theirs.neighbours.rows) if theirs else 0
    paths = np.array(catalog.paths, dtype=object)[protocol.gallery]
    columns: Columns = {}
    for rank in range(min(SHOWN, hits.shape[1])):
        rows = np.concatenate([asked.neighbours.rows[:, rank].numpy() for asked in both])
        columns[f"hit_{rank + 1}"] = paths[rows]
        columns[f"match_{rank + 1}"] = np.concatenate([hits[:, rank], np.zeros(strangers, bool)])
        columns[f"distance_{rank + 1}"] = np.concatenate(
            [asked.neighbours.distance[:, rank].double().numpy() for asked in both]
        )
    for name in ours.signals:
        columns[f"signal.{name}"] = np.concatenate([a.signals[name].numpy() for a in both])
    for name, probability in found.probability.items():
        known = np.full(len(hits) + strangers, np.nan)
        known[: len(hits)][protocol.n_matches > 0] = probability.numpy()
        columns[f"probability.{name}"] = known
    return columns


def _texts(*parts: Sequence[str]) -> NDArray[Any]:
    return np.array([text for part in parts for text in part], dtype=object)
