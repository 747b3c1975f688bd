"""Calibrate by the labels of the index: search it with labelled queries, fit the label model near its prior."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.confidence.calibrate import CalibrationTargets, Progress, curve_of, origin_of, quality_of, trained_classes
from surefind.confidence.calibration import LABELS, PRIOR, Calibrated, Calibration, Origin, known_share, label_answers
from surefind.confidence.class_table import ClassTable, Codes, Numbers, label_of, labels_of
from surefind.confidence.conformal import PredictionSetRule, fit_prediction_set, novelty_of, novelty_values
from surefind.confidence.drift import check_calibration_data, label_reference, quantiles_of
from surefind.confidence.evidence import NEIGHBOURS
from surefind.confidence.guarantee import PrecisionGuarantee
from surefind.confidence.label_model import (
    CLASS_COLUMNS,
    KNOWN_COLUMNS,
    QUERY_COLUMNS,
    LabelModel,
    LabelNeighbourhood,
    label_columns,
    label_neighbourhood,
    prior_model,
    scores_of,
)
from surefind.confidence.labelled_queries import LEAST_CLASSES, LabelledQueries, RowCache, nearest_without_copies
from surefind.confidence.match_model import ALLOWED, Logistic, fit_logistic, folds_of, minimise
from surefind.confidence.neighbours import LocalDensity
from surefind.engines.base import Engine

FETCHED = 128  # neighbours of a query, of which some are left without its class
QUERIES_AT_ONCE = 32  # each with FETCHED vectors in float64
PENALTY = 200.0  # on squared differences from the prior's weights, of standardised columns
LOOSE = 0.05  # times that: on the bias, and on the prior's weights as a whole
LEAST_LABELLED = 20  # queries with another image of their class; with fewer, the prior answers
VOTERS = 10  # nearest images whose commonest label is compared with
TEMPERED = ("size", "classes")  # columns that evidence counts more or less with

Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


class LabelData(NamedTuple):
    """Labelled queries and what they find: Q queries with K neighbours each."""

    near: LabelNeighbourhood
    own: Codes  # (Q,)
    class_codes: Codes  # (Q,), for folds and guarantees
    has_match: Flags  # (Q,), whether the gallery has another image of the class
    unknown: tuple[Rows, LabelNeighbourhood]  # queries, and what they find without their class
    copies: int  # of queries, left out
    fold: Rows  # (Q,)

    @property
    def right(self) -> Flags:
        """Which neighbours are matches, (Q, K)."""
        return np.asarray((self.near.code == self.own[:, None]) & (self.own[:, None] >= 0))


def collect_label_data(
    engine: Engine, queries: LabelledQueries, table: ClassTable, *, progress: Callable[[int], None] = lambda _: None
) -> LabelData:
    """Search for each query; queries with fewer than NEIGHBOURS other images are dropped."""
    labels = labels_of(queries.facts, table.field)
    codes = table.codes_of(labels)
    distance, code, left_out, copies = _search(engine, queries, table, labels, progress)
    engine.release()  # what follows reads no vectors
    width = min(NEIGHBOURS, max(1, int(np.isfinite(distance).sum(axis=1).max(initial=0))))

    def look(away: Numbers, left: Numbers, classes: int) -> tuple[Rows, LabelNeighbourhood]:
        """Return the queries with enough neighbours in a gallery, and these neighbours."""
        rows = np.flatnonzero(np.isfinite(away).sum(axis=1) >= width)
        order = np.argsort(away[rows], axis=1, kind="stable")[:, :width]
        return rows, label_neighbourhood(
            table,
            queries.at(rows).embeddings.mean.numpy(),
            np.take_along_axis(away[rows], order, axis=1),
            np.take_along_axis(code[rows], order, axis=1),
            own=codes[rows],
            left_out=left[rows],
            classes=np.full(len(rows), float(classes)),
        )

    rows, near = look(distance, left_out, table.classes)
    others, unknown = look(
        np.where(code == codes[:, None], np.inf, distance), np.minimum(left_out, 1), max(table.classes - 1, 1)
    )
    class_codes = queries.class_codes[rows]
    return LabelData(
        near=near,
        own=codes[rows],
        class_codes=class_codes,
        has_match=np.append(table.counts, 0.0)[codes[rows]] > left_out[rows],
        unknown=(np.searchsorted(rows, others), unknown),
        copies=queries.copies + copies,
        fold=folds_of(class_codes),
    )


def _search(
    engine: Engine,
    queries: LabelledQueries,
    table: ClassTable,
    labels: list[str | None],
    progress: Callable[[int], None],
) -> tuple[Numbers, Codes, Numbers, int]:
    """Search batch by batch, without the queries themselves and their copies.

    Returns distances (Q, F), infinite where there are fewer, and classes (Q, F) of the nearest
    rows; the number of rows left out that are of the query's class, (Q,); the number of
    copies. Every row that is found is read once.
    """
    cache, field = RowCache(engine, table.field, {*queries.self_ids, *queries.digests}), table.field
    distance = np.full((len(labels), FETCHED), np.inf)
    code = np.full(distance.shape, -1)
    left_out, copies = np.zeros(len(labels)), 0
    for start in range(0, len(labels), QUERIES_AT_ONCE):
        batch = np.arange(start, min(start + QUERIES_AT_ONCE, len(labels)))
        some = queries.at(batch)
        near, without = nearest_without_copies(engine, some, cache, FETCHED, field)
        found = np.isfinite(near.ranked_by)
        rows, places = np.nonzero(found)
        distance[batch[rows], places] = near.distance[found]
        hits = cache.read(near.keys[found])
        code[batch[rows], places] = table.codes_of([label_of(hit[2], field) for hit in hits])
        for query, keys in zip(batch.tolist(), without, strict=True):
            name, label = queries.self_ids[query], labels[query]
            gone = [hit[0] for hit in cache.read(keys) if label_of(hit[2], field) == label]
            if label is not None:
                copies += sum(hit != name for hit in gone)
                left_out[query] = max(len(gone), name != "")  # an approximate search may miss it
        progress(int(batch[-1]) + 1)
    return distance, code, left_out, copies


class LabelFit(NamedTuple):
    """Fitted models, and what they say of queries without having seen their classes.

    The Q queries come first, then the U of `LabelData.unknown`.
    """

    model: LabelModel
    known: Logistic
    near: LabelNeighbourhood
    first: Flags  # (Q + U, K), whether a neighbour is the nearest of its class
    each: Numbers  # (Q + U, K), probability of the class of each neighbour
    log_odds: Numbers  # (Q + U,), that the class is in the gallery


def fit_labels(data: LabelData, prior: LabelModel) -> LabelFit:
    """Fit to all queries, and cross-fit by class."""
    rows, unknown = data.unknown
    near, folds = LabelNeighbourhood.joined([data.near, unknown]), np.r_[data.fold, data.fold[rows]]
    each, log_odds = np.empty(near.code.shape), np.empty(len(folds))
    first = np.empty(near.code.shape, dtype=bool)
    for fold in np.unique(folds):
        model, known = _fit(data, data.fold != fold, prior)
        found = model.probabilities(near.at(folds == fold))
        first[folds == fold], each[folds == fold] = found.first, found.each
        log_odds[folds == fold] = known.log_odds(found.known)
    model, known = _fit(data, np.ones(len(data.own), dtype=bool), prior)
    return LabelFit(model, known, near, first, each, log_odds)


def _fit(data: LabelData, used: Flags, prior: LabelModel) -> tuple[LabelModel, Logistic]:
    """Fit to the queries that are used."""
    model = fit_label_model(data.near.at(used), data.own[used], prior)
    rows, unknown = data.unknown
    inside = label_columns(data.near.at(used & data.has_match)).known
    outside = label_columns(unknown.at(used[rows])).known
    known = fit_logistic(
        np.concatenate([inside, outside]),
        np.arange(len(inside) + len(outside)) < len(inside),
        directions=[direction for direction, _ in KNOWN_COLUMNS.values()],
    )
    balance = np.log(max(len(inside), 1) / max(len(outside), 1))
    return model, replace(known, bias=float(known.bias - balance))  # as many known as unknown


def fit_label_model(
    near: LabelNeighbourhood, own: Codes, prior: LabelModel, *, weights: Numbers | None = None, penalty: float = PENALTY
) -> LabelModel:
    r"""Fit by penalised maximum likelihood.

        minimise  -sum_q weight_q log P(own_q) + d P d / 2,   d = point - prior point

    P penalises all directions but three much more: the prior's weights of classes as a whole, those
    of none as a whole, and the bias. These differ most between domains.

    Where the `own` class is not among the neighbours, none is right. The temperature of the prior is
    kept, unless all its weights are 0. `weights` are those of the queries, by default 1.
    """
    from scipy.special import logsumexp  # type: ignore[import-untyped]  # not beside the search

    standard = prior.standard(label_columns(near))
    first, queries = standard.first, np.arange(len(own))
    right = (near.code == own[:, None]) & first
    answer = np.where(right.any(axis=1), right.argmax(axis=1), first.shape[1])
    weight = np.ones(len(own)) if weights is None else weights
    start, of_class, of_query = prior.point, len(CLASS_COLUMNS), len(QUERY_COLUMNS)
    loose = np.zeros((3, len(start)))
    loose[2, -1] = 1
    for row, part in enumerate((slice(of_class), slice(of_class, of_class + of_query))):
        loose[row, part] = start[part] / max(float(np.linalg.norm(start[part])), 1e-9)

    def cost(point: Numbers) -> tuple[float, Numbers]:
        scores, none = scores_of(standard, point)
        every = np.c_[np.where(first, scores, -np.inf), none]
        total = logsumexp(every, axis=1)
        loss = weight @ (total - every[queries, answer])
        error = np.exp(every - total[:, None])
        error[queries, answer] -= 1
        error *= weight[:, None]
        scale = np.exp(standard.of_query @ point[of_class + of_query : -1])
        gradient = np.concatenate(
            [
                np.einsum("qk,qkf->f", error[:, :-1] * scale[:, None], standard.of_class),
                error[:, -1] @ standard.of_query,
                (error[:, :-1] * scores).sum(axis=1) @ standard.of_query,
                [error[:, -1].sum()],
            ]
        )
        away = point - start
        pull = penalty * (away - (1 - LOOSE) * loose.T @ (loose @ away))
        return float(loss + away @ pull / 2), gradient + pull

    free = () if any(prior.weights) else TEMPERED
    bounds = [
        *(ALLOWED[direction] for direction, _ in CLASS_COLUMNS.values()),
        *((None, None) for _ in QUERY_COLUMNS),
        *(
            (None, None) if name in free else (kept, kept)
            for name, kept in zip(QUERY_COLUMNS, prior.temperature, strict=True)
        ),
        (None, None),
    ]
    found = minimise(cost, start, bounds, steps=500).tolist()
    return replace(
        prior,
        weights=tuple(found[: of_class + of_query]),
        temperature=tuple(found[of_class + of_query : -1]),
        bias=found[-1],
    )


def calibrate_labels(
    engine: Engine,
    queries: LabelledQueries | None,
    table: ClassTable,
    targets: CalibrationTargets,
    *,
    source: str,
    too_few: str | None = None,
    trained_with: frozenset[str] = frozenset(),
    progress: Progress = lambda *_: None,
) -> Calibrated:
    """Search the labelled queries and fit a calibration to the labels of the gallery.

    With too few queries or classes the prior answers, and `too_few` may say why.
    """
    data = None
    if queries is not None:
        total = len(queries.facts)
        data = collect_label_data(
            engine, queries, table, progress=lambda done: progress("searching labelled queries", done, total)
        )
        classes = len(np.unique(data.class_codes[data.has_match]))
        if data.has_match.sum() < LEAST_LABELLED or classes < LEAST_CLASSES:
            too_few = too_few or (
                f"{int(data.has_match.sum())} labelled images of {classes} classes have another "
                f"image of their class, and {LEAST_LABELLED} of {LEAST_CLASSES} are needed"
            )
            data = None
    if queries is None or data is None:
        remarks = (f"prior calibration of surefind: {too_few or 'no labelled queries'}",)
        none = np.zeros(0, dtype=np.int64)
        origin = origin_of(engine, source, none, none.astype(bool), remarks, evidence=PRIOR, field=table.field)
        return Calibrated(prior_calibration(origin, targets), LocalDensity.empty())
    weaknesses = check_calibration_data(data.right[:, 0], data.class_codes, has_match=data.has_match)
    weaknesses = (*trained_classes(queries, trained_with, table.field), *weaknesses)
    origin = origin_of(
        engine,
        source,
        data.class_codes,
        data.has_match,
        weaknesses,
        evidence=LABELS,
        field=table.field,
        copies=data.copies,
    )
    return Calibrated(fit_label_calibration(data, origin, targets, prior_model()), LocalDensity.empty())


def fit_label_calibration(
    data: LabelData, origin: Origin, targets: CalibrationTargets, prior: LabelModel
) -> Calibration:
    """Fit confidence to the labels of the gallery, cross-fitted by class, near the prior."""
    fitted = fit_labels(data, prior)
    queries, share = len(data.own), targets.unknown_share
    genuine = label_answers(fitted.each[:queries], fitted.first[:queries], data.near.code)
    among = (genuine.code == data.own[:, None]) & (genuine.code >= 0)
    # Queries whose class is hidden stand for those of unknown classes, as many as requested.
    hidden = data.unknown[0]
    drawn = np.random.default_rng(0).permutation(len(hidden))
    drawn = drawn[: round(queries * share / (1 - share))]
    rows = np.r_[np.arange(queries), queries + drawn]
    class_codes, fold = (np.r_[its, its[hidden[drawn]]] for its in (data.class_codes, data.fold))
    own = np.r_[data.own, np.full(len(drawn), -1)]
    near = fitted.near.at(rows)
    match = (near.code == own[:, None]) & (near.code >= 0)
    each = fitted.each[rows] * known_share(fitted.log_odds[rows], share)[:, None]
    answers = label_answers(each, fitted.first[rows], near.code)
    right = (answers.code[:, 0] == own) & (own >= 0)
    sure = answers.probability[:, 0]
    curve = curve_of(sure, right, match, near.distance, fold)
    voted, uncertainty = vote_of(near)
    return Calibration(
        origin=origin,
        model=fitted.model,
        guarantee=targets.guarantee(sure, right, class_codes),
        prediction_set=fit_prediction_set(
            np.cumsum(genuine.probability, axis=1), among, data.class_codes, miss_rate=targets.miss_rate
        ),
        curve=curve,
        quality=quality_of(curve, near.distance, (uncertainty, (voted == own) & (own >= 0))),
        novelty=novelty_of(novelty_values(data.near.distance)[data.has_match]),
        known=fitted.known,
        unknown=novelty_of(-fitted.log_odds[:queries][data.has_match]),
        unknown_share=share,
        reference_quantiles=quantiles_of(label_reference(data.near, sure[:queries])),
        novelty_level=targets.novelty_level,
    )


def prior_calibration(origin: Origin, targets: CalibrationTargets) -> Calibration:
    """Return the calibration that ships with the package; it guarantees nothing."""
    unknown = PrecisionGuarantee(targets.precision, targets.probability, horizon=targets.horizon)
    level = 1 - targets.miss_rate
    shown = PredictionSetRule(targets.miss_rate, level, NEIGHBOURS, 0.0, 0, 0, targets.miss_rate)
    return Calibration(origin, prior_model(), unknown, shown)


def vote_of(near: LabelNeighbourhood) -> tuple[Codes, Numbers]:
    """Commonest label of the nearest images (of equals the nearest), and its share subtracted from 0; (Q,) each."""
    some = near.code[:, :VOTERS]
    same = (some[:, :, None] == some[:, None]) & (some >= 0)[:, None]
    count = same.sum(axis=2)
    rows, best = np.arange(len(some)), count.argmax(axis=1)
    return some[rows, best], -count[rows, best] / some.shape[1]
