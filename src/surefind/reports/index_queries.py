"""Labelled queries of an index: load them, and search without those that are in it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.confidence.calibrate import rows_without_copies
from surefind.confidence.class_table import is_missing, label_of
from surefind.confidence.evidence import NEIGHBOURS
from surefind.confidence.neighbours import copies_among
from surefind.datasets import read_catalog
from surefind.embeddings import Embeddings
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog
from surefind.images.digest import digest_of
from surefind.reports.result import Exclusion
from surefind.search.hits import SearchResult
from surefind.search.index import Index

QUERIES_AT_ONCE = 256

Progress = Callable[[str, int, int], None]  # stage, done, total


class IndexQueries(NamedTuple):
    """Queries with labels, and how many were left out."""

    embeddings: Embeddings
    labels: list[str]
    digests: list[str]  # "" for embeddings
    exclusions: tuple[Exclusion, ...] = ()

    def at(self, rows: NDArray[np.int64], reason: str = "") -> "IndexQueries":
        """Select queries; with a reason, the others are listed as left out."""
        out = Exclusion(reason, len(self.labels) - len(rows))
        return IndexQueries(
            self.embeddings[rows.tolist()],
            [self.labels[row] for row in rows],
            [self.digests[row] for row in rows],
            (*self.exclusions, out) if reason else self.exclusions,
        )


def load_queries(
    index: Index,
    labelled: Catalog | str | Path | Embeddings,
    labels: Sequence[object] | None,
    field: str,
    progress: Progress,
) -> IndexQueries:
    """Return queries with labels, without copies of each other."""
    if isinstance(labelled, Embeddings):
        index.space.check(labelled)
        if labels is None or len(labels) != len(labelled):
            got = "none" if labels is None else str(len(labels))
            raise InvalidArgument("labels", expected=f"{len(labelled)}, one per query", got=got)
        texts = ["" if is_missing(label) else str(label) for label in labels]
        embeddings = labelled.detach().to("cpu").to(torch.float32)
        queries = IndexQueries(embeddings, texts, [""] * len(texts))
    else:
        catalog = labelled if isinstance(labelled, Catalog) else read_catalog(labelled)
        if catalog.queries:
            catalog = catalog.select(np.flatnonzero(catalog.queries))
        texts = [label_of(facts, field) or "" for facts in catalog.metadata]
        _require_label(texts, field)
        encoded = index.encoder.encode_all(
            catalog.files, max_bad_share=1.0, progress=lambda done: progress("encoding", done, len(catalog))
        )
        rows, rejected = encoded.rows.tolist(), encoded.rejected
        if not rows:
            raise InvalidArgument(
                "labelled",
                expected="readable images",
                got=f"{len(rejected)} that are not: {rejected[0].path}: {rejected[0].reason}",
            )
        queries = IndexQueries(
            encoded.embeddings,
            [texts[row] for row in rows],
            [digest_of(catalog.file(row)) for row in rows],
            (Exclusion.of("unreadable", [bad.path for bad in rejected]),),
        )
    _require_label(queries.labels, field)
    queries = queries.at(np.flatnonzero(queries.labels), "without a label")
    means, digests = queries.embeddings.mean, queries.digests
    once = rows_without_copies(means, queries.labels, digests, at_least=False)
    return queries.at(once, "copies of another query")


def _require_label(labels: Sequence[str], field: str) -> None:
    if not any(labels):
        raise InvalidArgument(
            "labelled",
            expected=f"queries with labels ({field})",
            got=f"{len(labels)} without" if labels else "no queries",
            fix="use a folder with a sub-folder per class, a table with a column of labels, or vectors with labels",
        )


class SearchedQuery(NamedTuple):
    """Answer to a query, and its nearest images by the distance of means."""

    result: SearchResult
    distance: NDArray[np.float64]  # (K,)
    labels: list[str | None]
    nearest: NDArray[np.floating]  # (D,), mean of the nearest


def search_queries(
    index: Index, queries: IndexQueries, field: str, progress: Progress
) -> tuple[IndexQueries, list[SearchedQuery]]:
    """Search; queries that are in the index are left out."""
    found: list[SearchedQuery] = []
    outside: list[int] = []
    total = len(queries.labels)
    for start in range(0, total, QUERIES_AT_ONCE):
        batch = np.arange(start, min(start + QUERIES_AT_ONCE, total))
        some = queries.at(batch)
        near = index.nearest(some.embeddings, NEIGHBOURS, ranking="mean")
        means, asked = index.space.means(near.vectors), some.embeddings.mean.double().numpy()
        equal, ids = copies_among(near, asked), index.ids(near)
        rows = index.items(list(dict.fromkeys(name for its in ids for name in its)))
        labels = dict(zip(rows.ids, (label_of(its, field) for its in rows.metadata), strict=True))
        digests = dict(zip(rows.ids, rows.digests, strict=True))
        for row, result in enumerate(index.search(some.embeddings, NEIGHBOURS)):
            is_copy = any(
                (equal[row, place] or digests[name] == some.digests[row] != "")
                and labels[name] in (None, some.labels[row])
                for place, name in enumerate(ids[row])
            )
            if not is_copy:
                each = [labels[name] for name in ids[row]]
                found.append(SearchedQuery(result, near.distance[row, : len(each)], each, means[row, 0]))
                outside.append(start + row)
        progress("searching", start + len(batch), total)
    if not found:
        raise InvalidArgument(
            "labelled",
            expected="queries that are not in the index",
            got=f"{total}, all of which are in it",
            fix="surefind info INDEX shows the quality measured with its own images",
        )
    return queries.at(np.array(outside), "in the index"), found
