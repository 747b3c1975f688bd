"""What an evaluation measured, as a model card tells it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from surefind.encoders.markup import markdown

TASK = "image-feature-extraction"  # what the hub calls it


@dataclass(frozen=True)
class Metric:
    """A value with its 95 % interval."""

    name: str  # "R@1, by distance of means"
    kind: str  # as the hub lists it: "recall_at_1"
    value: float
    low: float
    high: float

    def written(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Measured:
    """Metrics and where they come from."""

    data: str
    part: str  # of the data: "test"
    protocol: str  # in words: who is searched, what is a match
    queries: int
    gallery: int
    classes: int  # 0: matches are by position
    retrieval: tuple[Metric, ...]
    learned: Metric | None = None  # AUROC of "the top hit is wrong", by the query's variance
    free: Metric | None = None  # by the best signal that needs no training
    foreign: Metric | None = None  # AUROC of "the query is foreign", by the query's variance
    resampled: str = "queries"  # what intervals resample: queries, or whole classes
    version: str = ""  # of surefind
    date: str = ""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        doubts = (self.learned, self.free, self.foreign)
        return (*self.retrieval, *(metric for metric in doubts if metric is not None))


def metrics_text(measured: Measured | None) -> str:
    """A table, and what it was measured on."""
    if measured is None:
        return (
            "Not measured yet: `surefind evaluate MODEL DATA -o REPORT` does it, and "
            "`surefind push MODEL owner/name --report REPORT` writes it here."
        )
    matches = f"{measured.classes:,} classes" if measured.classes else "matches by position"
    rows = [f"| {markdown(metric.name)} | {metric.written()} |" for metric in measured.metrics]
    return "\n".join(
        (
            f"Measured on {markdown(measured.data)} ({markdown(measured.part)}): "
            f"{measured.queries:,} queries, {measured.gallery:,} images searched, {matches}; "
            f"{markdown(measured.protocol)}.",
            "",
            f"| metric | value (95 % interval over {measured.resampled}) |",
            "|---|---|",
            *rows,
            "",
            "The intervals do not cover chance in training. By "
            f"`surefind evaluate` {markdown(measured.version)}, {markdown(measured.date[:10])}.",
        )
    )


def limits_text(measured: Measured | None, *, classes: int, has_variance: bool) -> str:
    """What nobody should expect of the model."""
    limits = [_trained(classes), *_doubt(measured, has_variance=has_variance)]
    limits += [
        "A distance or a variance is not a probability. Confidence comes from `surefind calibrate` "
        "on labelled images of your own, for your own gallery.",
        "Do not calibrate with classes that it was trained with: it knows them too well, and "
        "would promise too much. classes.json has their hashes, by which surefind warns.",
        "On images that differ from those it was trained and measured on, expect less, and "
        "measure: `surefind evaluate`.",
    ]
    return "\n".join(f"- {limit}" for limit in limits)


def _trained(classes: int) -> str:
    if classes:
        return f"It was trained on {classes:,} classes; measure whether it serves for others."
    return "Which classes it was trained with was not written down."


def _doubt(measured: Measured | None, *, has_variance: bool) -> Sequence[str]:
    if not has_variance:
        return ["It has no variance of its own: doubt comes from distances alone."]
    if measured is None or measured.learned is None:
        return ["How well its variance tells wrong top hits from right ones was not measured."]
    told = (
        f"Its variance tells wrong top hits from right ones with AUROC {measured.learned.value:.3f}"
    )
    if measured.free is None:
        return [f"{told}; 0.5 is chance."]
    better = "less" if measured.learned.value < measured.free.value else "more"
    return [
        f"{told}; the best signal that needs no training ({markdown(_by(measured.free))}) "
        f"with {measured.free.value:.3f}: its variance tells {better}."
    ]


def _by(metric: Metric) -> str:
    return metric.name.rpartition(", by ")[2]


def model_index(name: str, measured: Measured) -> list[dict[str, Any]]:
    """The metrics as the hub reads them."""
    metrics = [
        {"type": metric.kind, "name": metric.name, "value": round(metric.value, 4)}
        for metric in measured.metrics
    ]
    dataset = {"type": measured.data, "name": measured.data, "split": measured.part}
    return [
        {
            "name": name,
            "results": [{"task": {"type": TASK}, "dataset": dataset, "metrics": metrics}],
        }
    ]
