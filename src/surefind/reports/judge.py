"""Embeddings and the truth about them to a judgement: search, compare, measure."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.engines.exact import Neighbours
from surefind.errors import InvalidArgument, SurefindError
from surefind.functional.checks import check_pair
from surefind.images.catalog import Catalog
from surefind.images.matches import Mask, Rows
from surefind.reports.columns import Asked, what_was_found, who_asks
from surefind.reports.crossfit import crossfit_probability
from surefind.reports.encoded import EXAMPLES, Embedded, each_once
from surefind.reports.found import Found
from surefind.reports.measures import measure
from surefind.reports.protocol import Protocol, protocol_of
from surefind.reports.queries import SHOWN, QueryTable
from surefind.reports.ranking import RANKINGS, neighbours
from surefind.reports.result import Exclusion, Ranking
from surefind.reports.signals import COSINE, DEPTH, uncertainty_signals

KS = (1, 5, 10)
MOST_FOR_MAP_AT_R = 200  # neighbours that are fetched for its sake


class Judgement(NamedTuple):
    """What was found about embeddings, before anything is said of where they came from."""

    rankings: dict[str, Ranking]
    own: Embedded  # the images that took part, to which the protocol refers: each once
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
    Memory does not grow with queries times gallery. `progress` is told what comes next. Copies of
    an image are left out.
    """
    _check(own, foreign, ks)
    own, protocol = _without_copies(own, radius)
    asking = gallery = own.embeddings
    if protocol.itself is None:
        asking = own.embeddings[torch.from_numpy(protocol.queries)]
        gallery = own.embeddings[torch.from_numpy(protocol.gallery)]
    most = int(protocol.n_matches.max())
    depth = depth or max(*ks, SHOWN, DEPTH, most if most <= MOST_FOR_MAP_AT_R else 0)
    columns = who_asks(own.catalog, protocol, foreign)
    progress("searching by means")
    near = neighbours("means", asking, gallery, depth, itself=protocol.itself)
    theirs_near = neighbours("means", foreign.embeddings, gallery, DEPTH) if foreign else None
    measured: dict[str, Ranking] = {}
    for ranking in RANKINGS if learned else RANKINGS[:1]:
        ask = partial(_ask, ranking, gallery=gallery, learned=learned)
        progress(f"searching by {ranking}")
        ours = ask(asking, near, itself=protocol.itself)
        theirs = ask(foreign.embeddings, theirs_near) if foreign and theirs_near else None
        progress(f"measuring by {ranking}")
        hits = protocol.hits(ours.neighbours.rows.numpy())
        found = _found(ours, theirs, hits, own.catalog, foreign, protocol)
        measured[ranking] = measure(found, ks=ks, seed=seed)
        told = what_was_found(ours, theirs, hits, found, own.catalog, protocol)
        columns |= {f"{ranking}.{name}": column for name, column in told.items()}
    exclusions = own.exclusions + (foreign.exclusions if foreign else ())
    exclusions += _unanswerable(own.catalog, protocol)
    return Judgement(measured, own, QueryTable(columns), protocol, exclusions)


def _without_copies(own: Embedded, radius: float) -> tuple[Embedded, Protocol]:
    once = each_once(own)
    try:
        return once, protocol_of(once.catalog, radius=radius)
    except SurefindError as error:
        copies = len(own.catalog) - len(once.catalog)
        if not copies:
            raise
        raise SurefindError(
            f"{error.problem}, once {copies} copies of other images are left out",
            fix="if those differ, the model gives different images the same vector: train it again",
        ) from error


def _ask(
    ranking: str,
    query: Embeddings,
    by_means: Neighbours,
    *,
    gallery: Embeddings,
    learned: bool,
    itself: Rows | None = None,
) -> Asked:
    found = by_means
    if ranking != "means":
        found = neighbours(ranking, query, gallery, by_means.rows.shape[1], itself=itself)
    signals = uncertainty_signals(query, gallery, found, by_means=by_means, learned=learned)
    return Asked(found, signals)


def _found(
    ours: Asked,
    theirs: Asked | None,
    hits: Mask,
    catalog: Catalog,
    foreign: Embedded | None,
    protocol: Protocol,
) -> Found:
    """The scored queries: those that have a match."""
    scored = protocol.n_matches > 0
    groups = groups_of(catalog)[protocol.queries[scored]]
    strangers = groups_of(foreign.catalog) if foreign else np.empty(0, np.int64)
    signals = {name: signal[torch.from_numpy(scored)] for name, signal in ours.signals.items()}
    probability = {
        name: torch.from_numpy(
            crossfit_probability(signal.numpy(), hits[scored, 0], groups, platt=name == COSINE)
        )
        for name, signal in signals.items()
    }
    return Found(
        torch.from_numpy(hits[scored]),
        torch.from_numpy(protocol.n_matches[scored]),
        signals,
        theirs.signals if theirs else {},
        {name: fitted for name, fitted in probability.items() if not fitted.isnan().any()},
        torch.from_numpy(groups),
        torch.from_numpy(strangers + len(catalog)),
        _difficulty(catalog, protocol.queries[scored]),
    )


def _difficulty(catalog: Catalog, queries: Rows) -> Tensor | None:
    if not catalog.difficulty:
        return None
    return torch.tensor([catalog.difficulty[row] for row in queries], dtype=torch.float64)


def groups_of(catalog: Catalog) -> Rows:
    """The class of each image, or itself where there are no labels, (N,), below N.

    Queries of one class are right or wrong together: they stay together when a probability is
    fitted, and when queries are resampled for an interval.
    """
    return catalog.codes if catalog.labels else np.arange(len(catalog))


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
