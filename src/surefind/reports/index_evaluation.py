"""Evaluate an index with labelled queries: verdicts, labels, guarantee, and other signals."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

import surefind as sf
from surefind import metrics
from surefind.confidence.calibrate import rows_without_copies
from surefind.confidence.calibration import NEIGHBOURHOODS, Calibration
from surefind.confidence.class_table import is_missing, label_of
from surefind.confidence.conformal import MATCH, VERDICTS
from surefind.confidence.evidence import NEIGHBOURS
from surefind.confidence.explain import gallery_change, made_with, measured, percent
from surefind.confidence.guarantee import PrecisionGuarantee
from surefind.confidence.label_calibration import VOTERS
from surefind.confidence.neighbours import copies_among
from surefind.datasets import read_catalog
from surefind.encoders.serialization import class_hashes
from surefind.engines.knn import Neighbours
from surefind.images.catalog import Catalog
from surefind.images.loader import digest_of
from surefind.metrics.intervals import Estimate
from surefind.reports.rankings import resamples_of, weighted
from surefind.reports.result import Exclusion
from surefind.reports.signals import COSINE, crossfit_probability, uncertainty_signals

CONFIDENCE, VOTE = "confidence", "label_vote"
NEAREST, VARIANCE = "nearest_distance", "query_var"
FREE = (VARIANCE, NEAREST, "ratio_1_10", "ratio_1_20", COSINE)  # signals without labels
QUERIES_AT_ONCE = 256
ALL, KNOWN, UNKNOWN = "all", "known", "unknown"  # queries, by whether the index has their class

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]
Progress = Callable[[str, int, int], None]  # stage, done, total


class Answers(NamedTuple):
    """Answers of one signal to Q queries."""

    uncertainty: Numbers  # (Q,)
    right: Flags  # (Q,)
    uses_labels: bool  # of the index, to answer or to judge the answer
    probability: Numbers | None = None  # (Q,), that the answer is right


@dataclass(frozen=True)
class SignalQuality:
    """How well a signal tells wrong answers from right ones.

    Attributes:
        uses_labels: Whether it uses the labels of the index.
        accuracy: Share of queries that its answer is right for.
        auroc: Of a wrong answer; None if all are right, or all wrong.
        ece: Debiased calibration error; None if it is no probability.
        floor: Expected `ece` of a perfect model with as many queries.
        answered: Largest share of queries, the surest first, that is answered with the requested
            precision; the threshold is chosen with hindsight, for every signal alike.
    """

    uses_labels: bool
    accuracy: float
    auroc: Estimate | None
    aurc: float
    ece: float | None
    floor: float | None
    answered: float


@dataclass(frozen=True)
class VerdictCounts:
    """Number of queries by verdict, and of matches that are right."""

    queries: int
    match: int
    unsure: int
    no_match: int
    right: int
    precision: float | None  # share of matches that are right

    @classmethod
    def of(cls, verdict: NDArray[np.str_], right: Flags) -> Self:
        match, unsure, no_match = (int((verdict == name).sum()) for name in VERDICTS)
        good = int(right[verdict == MATCH].sum())
        return cls(len(verdict), match, unsure, no_match, good, good / match if match else None)


@dataclass(frozen=True)
class IndexEvaluation:
    """Quality of an index on labelled queries; those of classes it has not are wrong answers.

    Attributes:
        evidence: What confidence rests on: labels, neighbourhoods or prior.
        nearest_right: Share of queries whose nearest image is right (R@1).
        first_right: The same of the first hit, which is the surest.
        label_accuracy: The same of the label; None if the index is calibrated without labels.
        precision: Of the verdict match, with its interval; None if no query is a match.
        guaranteed: Whether the precision in `guarantee` is guaranteed for these searches.
        set_coverage: Share of queries whose label is in `label_set` (without labels: of a hit to
            show), averaged over the classes that the index has; None if it has none of them.
        set_target: The share that the calibration aims at.
        set_size: Mean size of these sets.
        answers: By signal; not part of the JSON.
    """

    index: str
    data: str
    images: int
    queries: int
    classes: int
    evidence: str
    calibrated: str
    nearest_right: float
    first_right: float
    label_accuracy: float | None
    verdicts: dict[str, VerdictCounts]  # all, known, unknown
    precision: Estimate | None
    guarantee: PrecisionGuarantee
    threshold: float
    guaranteed: bool
    set_coverage: float | None
    set_target: float
    set_size: float
    signals: dict[str, SignalQuality]
    exclusions: tuple[Exclusion, ...] = ()
    remarks: tuple[str, ...] = ()
    command: str = ""
    date: str = ""
    surefind: str = sf.__version__
    answers: dict[str, Answers] = field(default_factory=dict, repr=False, compare=False)

    @property
    def kept(self) -> bool | None:
        """Whether matches are as precise as guaranteed; None if there is no guarantee or match."""
        if not self.guaranteed or self.precision is None:
            return None
        return self.precision.value >= self.guarantee.precision

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a user can expect of the index."""
        every, unknown, right = self.verdicts[ALL], self.verdicts[UNKNOWN], self.precision
        if right is None:
            sentences = [f"Of {every.queries:,} queries none is answered."]
        else:
            were = "were guaranteed" if self.guaranteed else "were requested, not guaranteed"
            sentences = [
                f"Of {every.queries:,} queries {measured(every.match / every.queries)} are "
                f"answered; {measured(right.value)} of the answers are right "
                f"({percent(self.guarantee.precision)} {were})."
            ]
        if self.kept is False and right is not None:
            chance = "is too low to be chance: calibrate again with queries like these"
            if right.high >= self.guarantee.precision:
                chance = "may be chance"
            ends = f"95 % interval {measured(right.low)} to {measured(right.high)}"
            sentences.append(f"The guarantee was not kept; {ends}, which {chance}.")
        if unknown.queries:
            sentences.append(
                f"{unknown.queries:,} queries are of classes that are not in the index; "
                f"{measured(1 - unknown.match / unknown.queries)} of these are not answered."
            )
        return tuple(sentences)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the answers, for JSON."""
        facts = asdict(replace(self, answers={}))
        del facts["answers"]
        return facts | {"kept": self.kept, "sentences": list(self.sentences)}


def evaluate_index(
    index: sf.Index,
    labelled: Catalog | str | Path | sf.Embeddings,
    *,
    labels: Sequence[object] | None = None,
    label: str | None = None,
    name: str | None = None,
    command: str = "",
    seed: int = 0,
    progress: Progress = lambda *_: None,
) -> IndexEvaluation:
    """Search an index with labelled queries and compare the answers with their labels.

    Queries that are in the index, by content or by an equal vector, and copies of another query
    are left out and counted.

    Args:
        index: A calibrated index.
        labelled: Catalog or a source of one, or embeddings.
        labels: Labels of embeddings.
        label: Metadata field of the labels of a catalog; by default that of the calibration.
        name: Name of the data in the report.
        command: Command line in the report.
        seed: Seed of resampling.
        progress: Called with stage, done, total.

    Raises:
        InvalidArgument: The index is not calibrated, or there are no labelled queries to ask.
    """
    calibration = index.calibration
    if calibration is None:
        raise sf.InvalidArgument(
            "index",
            expected="a calibrated index",
            got=f"{index.folder}, which is not calibrated",
            fix=f"surefind calibrate {index.folder}",
        )
    origin, guarantee = calibration.origin, calibration.guarantee
    table = index.class_table(origin.field)
    if not table.images:
        raise sf.InvalidArgument("index", expected="images with labels", got="none")
    queries = _load_queries(index, labelled, labels, label or origin.field, progress)
    queries, found = _search_queries(index, queries, origin.field, progress)
    own, results = np.array(queries.labels), [its.result for its in found]
    if reasons := {its.uncalibrated for its in results if its.uncalibrated}:
        raise sf.SurefindError(f"{index.folder}: {reasons.pop()}")
    known = np.isin(own, [c for c, n in zip(table.names, table.counts, strict=True) if n])
    classes, groups = np.unique(own, return_inverse=True)
    answers = _answers(queries, found, groups, by_labels=origin.evidence != NEIGHBOURHOODS)
    right, verdict = answers[CONFIDENCE].right, np.array([its.verdict for its in results])
    estimates = _estimates(answers, verdict == MATCH, groups, seed)
    first = [result.hits[0].label == label for result, label in zip(results, own, strict=True)]
    shown = [its.label_set or [hit.label for hit in its.hits[: its.show]] for its in results]
    covered = np.array([label in its for label, its in zip(own, shown, strict=True)])
    by_class = [covered[known & (groups == group)].mean() for group in np.unique(groups[known])]
    source = name or ("embeddings" if isinstance(labelled, sf.Embeddings) else str(getattr(labelled, "root", labelled)))
    return IndexEvaluation(
        index=str(index.folder),
        data=source,
        images=len(index),
        queries=len(own),
        classes=len(classes),
        evidence=origin.evidence,
        calibrated=made_with(calibration),
        nearest_right=float(answers[NEAREST].right.mean()),
        first_right=float(np.mean(first)),
        label_accuracy=float(right.mean()) if answers[CONFIDENCE].uses_labels else None,
        verdicts={
            which: VerdictCounts.of(verdict[rows], right[rows])
            for which, rows in ((ALL, known | True), (KNOWN, known), (UNKNOWN, ~known))
        },
        precision=estimates.get(MATCH),
        guarantee=guarantee,
        threshold=calibration.threshold,
        guaranteed=all(its.guaranteed for its in results),
        set_coverage=float(np.mean(by_class)) if by_class else None,
        set_target=1 - calibration.prediction_set.miss_rate,
        set_size=float(np.mean([len(its) for its in shown])),
        signals={signal: _quality(its, estimates.get(signal), guarantee.precision) for signal, its in answers.items()},
        exclusions=tuple(exclusion for exclusion in queries.exclusions if exclusion.count),
        remarks=_remarks(index, calibration, source, classes.tolist()),
        command=command,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        answers=answers,
    )


class _Queries(NamedTuple):
    """Queries with labels, and how many were left out."""

    embeddings: sf.Embeddings
    labels: list[str]
    digests: list[str]  # "" for embeddings
    exclusions: tuple[Exclusion, ...] = ()

    def at(self, rows: NDArray[np.int64], reason: str = "") -> Self:
        """Select queries; with a reason, the others are listed as left out."""
        out = Exclusion(reason, len(self.labels) - len(rows))
        return type(self)(
            self.embeddings[rows.tolist()],
            [self.labels[row] for row in rows],
            [self.digests[row] for row in rows],
            (*self.exclusions, out) if reason else self.exclusions,
        )


def _load_queries(
    index: sf.Index,
    labelled: Catalog | str | Path | sf.Embeddings,
    labels: Sequence[object] | None,
    field: str,
    progress: Progress,
) -> _Queries:
    """Return queries with labels, without copies of each other."""
    if isinstance(labelled, sf.Embeddings):
        index.space.check(labelled)
        if labels is None or len(labels) != len(labelled):
            got = "none" if labels is None else str(len(labels))
            raise sf.InvalidArgument("labels", expected=f"{len(labelled)}, one per query", got=got)
        texts = ["" if is_missing(label) else str(label) for label in labels]
        embeddings = labelled.detach().to("cpu").to(torch.float32)
        queries = _Queries(embeddings, texts, [""] * len(texts))
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
            raise sf.InvalidArgument(
                "labelled",
                expected="readable images",
                got=f"{len(rejected)} that are not: {rejected[0].path}: {rejected[0].reason}",
            )
        queries = _Queries(
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
        raise sf.InvalidArgument(
            "labelled",
            expected=f"queries with labels ({field})",
            got=f"{len(labels)} without" if labels else "no queries",
            fix="use a folder with a sub-folder per class, a table with a column of labels, or vectors with labels",
        )


class _Searched(NamedTuple):
    """Answer to a query, and its nearest images by the distance of means."""

    result: sf.SearchResult
    distance: NDArray[np.float64]  # (K,)
    labels: list[str | None]
    nearest: NDArray[np.floating]  # (D,), mean of the nearest


def _search_queries(
    index: sf.Index, queries: _Queries, field: str, progress: Progress
) -> tuple[_Queries, list[_Searched]]:
    """Search; queries that are in the index are left out."""
    found: list[_Searched] = []
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
                found.append(_Searched(result, near.distance[row, : len(each)], each, means[row, 0]))
                outside.append(start + row)
        progress("searching", start + len(batch), total)
    if not found:
        raise sf.InvalidArgument(
            "labelled",
            expected="queries that are not in the index",
            got=f"{total}, all of which are in it",
            fix="surefind info INDEX shows the quality measured with its own images",
        )
    return queries.at(np.array(outside), "in the index"), found


def _answers(
    queries: _Queries, found: list[_Searched], groups: NDArray[np.int64], *, by_labels: bool
) -> dict[str, Answers]:
    """Answers of each signal: the label or first hit, the label vote, the nearest image."""
    own, results = np.array(queries.labels), [its.result for its in found]
    sure = np.array([its.label_confidence or its.confidence or 0.0 for its in results])
    named = np.array([its.label or its.hits[0].label or "" for its in results])
    share, voted = map(np.array, zip(*(_vote(its.labels) for its in found), strict=True))
    answers = {
        CONFIDENCE: Answers(-sure, named == own, by_labels, sure),
        VOTE: Answers(-share, voted == own, uses_labels=True),
    }
    width = min(len(its.labels) for its in found)
    distance = torch.from_numpy(np.array([its.distance[:width] for its in found]))
    nearest = torch.from_numpy(np.array([its.nearest for its in found], dtype=np.float32))
    neighbours = Neighbours(torch.arange(len(own))[:, None], distance)
    signals = uncertainty_signals(
        queries.embeddings,
        sf.Gaussians(nearest, torch.ones(len(nearest))),
        neighbours,
        by_means=neighbours,
        learned=False,
    )
    if bool((queries.embeddings.var != queries.embeddings.var[0]).any()):  # learned
        signals[VARIANCE] = queries.embeddings.var.double()
    right = np.array([its.labels[0] or "" for its in found]) == own
    for name in (name for name in FREE if name in signals):
        answers[name] = Answers(signals[name].numpy(), right, uses_labels=False)
    platt = crossfit_probability(answers[COSINE].uncertainty, right, groups, platt=True)
    if not np.isnan(platt).any():  # of a single class
        answers[COSINE] = answers[COSINE]._replace(probability=platt)
    return answers


def _vote(labels: Sequence[str | None]) -> tuple[float, str]:
    """Share of the commonest label among the nearest images; of equals, the nearest one's."""
    nearest = labels[:VOTERS]
    counts = Counter(label for label in nearest if label is not None)
    label, count = next(iter(counts.most_common(1)), ("", 0))
    return count / len(nearest), label


def _estimates(answers: dict[str, Answers], match: Flags, groups: NDArray[np.int64], seed: int) -> dict[str, Estimate]:
    """AUROC of each signal and precision of matches, with intervals over classes."""
    statistics = {
        name: weighted(metrics.auroc, torch.from_numpy(its.uncertainty), torch.from_numpy(~its.right))
        for name, its in answers.items()
        if its.right.any() and not its.right.all()
    }
    if match.any():
        matched = torch.from_numpy(match).float()
        both = matched * torch.from_numpy(answers[CONFIDENCE].right)
        statistics[MATCH] = lambda weights: (weights @ both) / (weights @ matched)
    return metrics.bootstrap_all(
        statistics,
        len(groups),
        groups=torch.from_numpy(groups) if groups.any() else None,  # not of a single class
        resamples=resamples_of(len(groups)),
        seed=seed,
    )


def _quality(answers: Answers, auroc: Estimate | None, precision: float) -> SignalQuality:
    unsure, right = torch.from_numpy(answers.uncertainty), torch.from_numpy(answers.right)
    ece = floor = None
    if answers.probability is not None:
        probability = torch.from_numpy(answers.probability)
        ece = metrics.debiased_calibration_error(probability, right)
        floor = metrics.calibration_floor(probability)
    return SignalQuality(
        uses_labels=answers.uses_labels,
        accuracy=float(answers.right.mean()),
        auroc=auroc,
        aurc=metrics.aurc(unsure, ~right),
        ece=ece,
        floor=floor,
        answered=share_answered(answers.uncertainty, answers.right, precision),
    )


def share_answered(uncertainty: Numbers, right: Flags, precision: float) -> float:
    """Largest share of queries, the surest first, of which `precision` are right; ties together."""
    order = np.argsort(uncertainty, kind="stable")
    ordered, count = uncertainty[order], np.arange(1, len(order) + 1)
    is_end = np.append(ordered[1:] > ordered[:-1], True)
    enough = np.cumsum(right[order]) >= precision * count - 1e-9
    return float(max(count[is_end & enough], default=0) / len(order))


def _remarks(index: sf.Index, calibration: Calibration, source: str, classes: Sequence[str]) -> tuple[str, ...]:
    """Reasons why there is no guarantee, or why other queries may fare worse."""
    seen = class_hashes(classes) & index.encoder.trained_with if index.has_model else ()
    remarks = {
        gallery_change(calibration, len(index)): True,
        "the index was calibrated with these queries, and is surer of them than of others": (
            source == calibration.origin.source
        ),
        f"{len(seen)} of the {len(classes)} classes were used to train the model, which is "
        "surer of them than of others": bool(seen),
    }
    return tuple(remark for remark, holds in remarks.items() if remark and holds)
