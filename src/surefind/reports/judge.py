"""Embeddings and the truth about them to a judgement: search, compare, measure."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.errors import InvalidArgument
from surefind.functional.checks import check_pair
from surefind.images.catalog import Catalog
from surefind.images.matches import Mask, Rows
from surefind.reports.columns import Asked, what_was_found, who_asks
from surefind.reports.crossfit import crossfit_probability
from surefind.reports.encoded import EXAMPLES, Embedded
from surefind.reports.found import Found
from surefind.reports.measures import measure
from surefind.reports.protocol import Protocol, protocol_of
from surefind.reports.queries import SHOWN, QueryTable
from surefind.reports.ranking import RANKINGS, neighbours
from surefind.reports.result import Exclusion, Ranking
from surefind.reports.signals import uncertainty_signals

KS = (1, 5, 10)
MOST_FOR_MAP_AT_R = 200  # neighbours that are fetched for its sake


class Judgement(NamedTuple):
    """What was found about embeddings, before anything is said of where they came from."""

    rankings: dict[str, Ranking]
    queries: QueryTable  # the foreign ones last
    protocol: Protocol
    exclusions: tuple[Exclusion, ...]


def judge(
    own: Embedded,
    foreign: Embedded | None = None,
    *,
    learned: bool = True,
    ks: Sequence[int] = KS,
    depth: int | None = None,
    radius: float = 25.0,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> Judgement:
    """Search, compare with the truth, and measure, in both orders of the gallery.

    `learned` is False where the variance says nothing: then there is one order, and only what
    distances tell. `depth` neighbours are fetched; unless given, enough for k and for MAP@R.
    Memory does not grow with queries times gallery. `progress` is told what comes next.
    """
    _check(own, foreign, ks)
    protocol = protocol_of(own.catalog, radius=radius)
    asking = gallery = own.embeddings
    if protocol.itself is None:
        asking = own.embeddings[torch.from_numpy(protocol.queries)]
        gallery = own.embeddings[torch.from_numpy(protocol.gallery)]
    most = int(protocol.n_matches.max())
    depth = depth or max(*ks, SHOWN, most if most <= MOST_FOR_MAP_AT_R else 0)
    columns = who_asks(own.catalog, protocol, foreign)
    measured: dict[str, Ranking] = {}
    for ranking in RANKINGS if learned else RANKINGS[:1]:
        ask = partial(_ask, ranking, gallery=gallery, learned=learned)
        progress(f"searching by {ranking}")
        ours = ask(asking, k=depth, itself=protocol.itself)
        theirs = ask(foreign.embeddings, k=SHOWN) if foreign else None
        progress(f"measuring by {ranking}")
        hits = protocol.hits(ours.neighbours.rows.numpy())
        found = _found(ours, theirs, hits, own.catalog, protocol)
        measured[ranking] = measure(found, ks=ks, seed=seed)
        told = what_was_found(ours, theirs, hits, found, own.catalog, protocol)
        columns |= {f"{ranking}.{name}": column for name, column in told.items()}
    exclusions = own.exclusions + (foreign.exclusions if foreign else ())
    exclusions += _unanswerable(own.catalog, protocol)
    return Judgement(measured, QueryTable(columns), protocol, exclusions)


def _ask(
    ranking: str,
    query: Embeddings,
    *,
    gallery: Embeddings,
    k: int,
    learned: bool,
    itself: Rows | None = None,
) -> Asked:
    found = neighbours(ranking, query, gallery, k, itself=itself)
    return Asked(found, uncertainty_signals(query, gallery, found, learned=learned))


def _found(
    ours: Asked, theirs: Asked | None, hits: Mask, catalog: Catalog, protocol: Protocol
) -> Found:
    """The scored queries: those that have a match."""
    scored = protocol.n_matches > 0
    groups = _groups(catalog, protocol)[scored]
    signals = {name: signal[torch.from_numpy(scored)] for name, signal in ours.signals.items()}
    probability = {
        name: torch.from_numpy(crossfit_probability(signal.numpy(), hits[scored, 0], groups))
        for name, signal in signals.items()
    }
    return Found(
        torch.from_numpy(hits[scored]),
        torch.from_numpy(protocol.n_matches[scored]),
        signals,
        theirs.signals if theirs else {},
        {name: fitted for name, fitted in probability.items() if not fitted.isnan().any()},
        _difficulty(catalog, protocol.queries[scored]),
    )


def _difficulty(catalog: Catalog, queries: Rows) -> Tensor | None:
    if not catalog.difficulty:
        return None
    return torch.tensor([catalog.difficulty[row] for row in queries], dtype=torch.float64)


def _groups(catalog: Catalog, protocol: Protocol) -> Rows:
    """Queries of one label stay together when a probability is fitted and judged."""
    if catalog.labels:
        return catalog.codes[protocol.queries]
    return np.arange(len(protocol.queries))


def _unanswerable(catalog: Catalog, protocol: Protocol) -> tuple[Exclusion, ...]:
    lonely = protocol.queries[protocol.n_matches == 0]
    if not len(lonely):
        return ()
    examples = tuple(catalog.paths[row] for row in lonely[:EXAMPLES])
    return (Exclusion("query without a match in the gallery", len(lonely), examples),)


def _check(own: Embedded, foreign: Embedded | None, ks: Sequence[int]) -> None:
    for name, batch in (("own", own), ("foreign", foreign)):
        if batch is not None and len(batch.embeddings) != len(batch.catalog):
            raise InvalidArgument(
                name,
                expected=f"{len(batch.catalog)} embeddings, one per image",
                got=str(len(batch.embeddings)),
                fix="embed the catalog again",
            )
    if foreign is not None:
        check_pair(own.embeddings, foreign.embeddings, "own, foreign")
    if not ks or min(ks) < 1:
        raise InvalidArgument(
            "ks", expected="numbers from 1 on", got=repr(tuple(ks)), fix="use 1, 5, 10"
        )
