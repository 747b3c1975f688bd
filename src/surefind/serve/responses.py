"""Models of the responses, and what fills them: no path of this machine, no NaN or infinity."""

import math
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, Field

import surefind
from surefind.confidence import explain
from surefind.confidence.calibration import Calibration, Curve
from surefind.engines.base import Rows
from surefind.engines.filters import Metadata
from surefind.engines.space import Space
from surefind.functional.ranking import RANKINGS
from surefind.images.decode import FORMATS
from surefind.metrics.calibration import reliability_bins
from surefind.serve.gallery import GallerySample, item_of
from surefind.serve.service import PATH, Answered, Seconds
from surefind.serve.settings import MAX_K
from surefind.serve.state import AppState

SAMPLES = 8  # images of the gallery that the page offers to try
BINS = 32  # of the histogram of variances
CONSTANT = 1e-6  # variances that differ relatively by less say nothing
STEPS = 100  # of the threshold

Number = Annotated[
    float | None,
    BeforeValidator(lambda value: value if value is None or math.isfinite(value) else None),
]


class Problem(BaseModel):
    """What went wrong, and what to do about it."""

    problem: str
    fix: str


class ErrorAnswer(BaseModel):
    error: Problem


class Links(BaseModel):
    item: str
    thumbnail: str
    neighbours: str


class Item(BaseModel):
    item: str = Field(description="The image's name in URLs.")
    id: str
    label: str | None
    var: Number = Field(description="Variance of the embedding; 1/kappa on the sphere.")
    metadata: dict[str, Any]
    links: Links


class HitAnswer(Item):
    rank: int
    distance: Number = Field(description="Squared, between the means.")
    expected_distance: Number
    std: Number = Field(description="How far the true distance may be from the expected one.")
    confidence: Number = Field(description="Calibrated probability of a match; null until then.")


class QueryAnswer(BaseModel):
    var: Number
    bytes: int | None = None
    width: int | None = None
    height: int | None = None
    item: str | None = None
    id: str | None = None


class IndexAnswer(BaseModel):
    images: int
    version: int | None


class SearchAnswer(BaseModel):
    query: QueryAnswer
    ranking: str
    reranked: bool = Field(description="Candidates of the index's own ranking, re-ordered.")
    verdict: Literal["match", "unsure", "no_match"] | None
    sentence: str | None = Field(description="Why that is the verdict.")
    confidence: Number = Field(description="That the first hit is a match.")
    novelty_p_value: Number
    show: int | None = Field(description="So many hits are worth a look.")
    advice: str | None
    uncalibrated: str | None = Field(description="Why there is no confidence.")
    calibrated: str | None = Field(description="What confidence rests on.")
    hits: list[HitAnswer]
    index: IndexAnswer
    seconds: Seconds


class EmbeddingAnswer(BaseModel):
    family: str
    mean: list[float]
    var: float
    fingerprint: str


class ThresholdAnswer(BaseModel):
    threshold: float
    coverage: float = Field(description="Share of the queries that are answered.")
    precision: Number = Field(description="Share of the answers that are right.")
    answered: int
    right: int


class ReliabilityAnswer(BaseModel):
    confidence: float = Field(description="What was said, on average.")
    right: float = Field(description="What was true.")
    queries: int


class CalibrationAnswer(BaseModel):
    created: str
    source: str
    queries: int
    classes: int
    copies: int = Field(description="Images left out because they are copies of a query.")
    remarks: list[str]
    made_with: str
    left_out: str | None = Field(description="The copies in a sentence; null if there are none.")
    guaranteed: str
    shown: str
    no_match: str
    threshold: Number = Field(description="Confidence from which a hit is called a match.")
    precision: float
    probability: float
    coverage: float
    novelty_level: float
    quality: dict[str, Number]
    curve: list[ThresholdAnswer] = Field(description="Of the calibration's own queries.")
    reliability: list[ReliabilityAnswer]


class LimitsAnswer(BaseModel):
    max_bytes: int
    max_k: int
    formats: list[str]


class SampleAnswer(BaseModel):
    name: str
    image: str | None
    item: str | None
    thumbnail: str


class InfoAnswer(BaseModel):
    name: str
    images: int
    family: str
    dim: int
    ranking: str
    rankings: list[str]
    engine: str
    version: int | None
    created: str | None
    fingerprint: str
    surefind: str
    takes_images: bool
    has_variance: bool
    labelled: bool
    pictures: bool
    limits: LimitsAnswer
    warnings: list[str]
    calibration: CalibrationAnswer | None
    how_to_calibrate: str | None
    samples: list[SampleAnswer]
    report: str | None


class UncertaintyAnswer(BaseModel):
    edges: list[float]
    counts: list[int]
    images: int
    of: int
    median: Number


class MapAnswer(BaseModel):
    ready: Literal[True]
    sentence: str
    items: list[str]
    ids: list[str]
    labels: list[str | None]
    x: list[float]
    y: list[float]
    var: list[float]


class MapPending(BaseModel):
    ready: Literal[False]
    sentence: str


class ReadyAnswer(BaseModel):
    ready: bool
    version: int | None
    images: int | None
    warnings: list[str]
    reload: str | None = Field(description="Why the newest version could not be taken.")


def search_answer(answered: Answered) -> SearchAnswer:
    result, served = answered.result, answered.served
    calibration = served.index.calibration
    judged = result.verdict is not None
    asked: dict[str, Any] = answered.picture or {}
    if answered.item is not None:
        asked = {"id": answered.item, "item": item_of(answered.item)}
    own = {
        "query": QueryAnswer(var=result.query_var, **asked),
        "sentence": explain.meaning(result.verdict, result.novelty_p_value, calibration)
        if judged
        else None,
        "advice": explain.how_many_to_look_at(
            result.verdict, result.show, calibration, listed=len(result.hits)
        ),
        "uncalibrated": result.uncalibrated and served.without_folder(result.uncalibrated),
        "calibrated": explain.made_with(_without_path(calibration))
        if judged and calibration is not None
        else None,
        "hits": [
            HitAnswer(**vars(hit) | _item_fields(hit.id, hit.metadata), rank=rank)
            for rank, hit in enumerate(result.hits, 1)
        ],
        "index": IndexAnswer(images=served.images, version=served.version),
        "seconds": answered.seconds,
    }
    return SearchAnswer(**vars(result) | own)


def item_answer(rows: Rows, space: Space) -> Item:
    """Of the first row."""
    var = float(space.var(rows.embeddings)[0])
    return Item(**_item_fields(rows.ids[0], rows.metadata[0]), var=var)


def info_answer(state: AppState) -> InfoAnswer:
    """The index, its calibration and the limits; not for the event loop."""
    served, (sample, _) = state.service.live.current, state.overview()
    index = served.index
    facts, calibration = index.describe(), index.calibration
    name = index.folder.resolve().name
    change = None if calibration is None else explain.gallery_change(calibration, served.images)
    samples = samples_to_try(sample)
    if state.samples is not None:
        links = [f"/v1/samples/{number}" for number in range(len(state.samples))]
        samples = [
            SampleAnswer(name=one.name, image=link, item=None, thumbnail=link)
            for one, link in zip(state.samples, links, strict=True)
        ]
    return InfoAnswer(
        name=name,
        images=served.images,
        family=facts["family"],
        dim=facts["dim"],
        ranking=facts["ranking"],
        rankings=list(RANKINGS),
        engine=str(facts["engine"]).partition("://")[0],
        version=served.version,
        created=facts.get("created"),
        fingerprint=facts["fingerprint"],
        surefind=surefind.__version__,
        takes_images=index.has_model,
        has_variance=bool(variance_histogram(sample.every_var, sample.of).edges),
        labelled=any(label is not None for label in sample.labels),
        pictures=bool(state.picture_roots),
        limits=LimitsAnswer(max_bytes=state.settings.max_bytes, max_k=MAX_K, formats=list(FORMATS)),
        warnings=[*served.warnings, *(told for told in (change, served.trouble) if told)],
        calibration=None if calibration is None else _calibration(calibration),
        how_to_calibrate=None if calibration else f"surefind calibrate {name} DATA",
        samples=samples,
        report=None if state.report is None else "/report/",
    )


def samples_to_try(sample: GallerySample, count: int = SAMPLES) -> list[SampleAnswer]:
    """Images of as many labels as there are: one of each before a second of any."""
    seen: Counter[str | None] = Counter()
    turns = []
    for row, label in enumerate(sample.labels):
        turns.append((seen[label], sample.ids[row]))
        seen[label] += 1
    turns.sort(key=lambda turn: turn[0])  # stable: else in the order of the sample
    return [
        SampleAnswer(name=name, image=None, item=item, thumbnail=f"/v1/items/{item}/thumbnail")
        for name, item in ((name, item_of(name)) for _, name in turns[:count])
    ]


def variance_histogram(var: NDArray[np.float64], of: int) -> UncertaintyAnswer:
    """Count variances in bins that are even in log variance; no bins where all are equal."""
    edges, counts = np.empty(0), np.empty(0, np.int64)
    if len(var) and var.max() - var.min() > CONSTANT * var.max():
        edges = np.geomspace(var.min(), var.max(), BINS + 1)  # begins and ends there exactly
        counts, _ = np.histogram(var, edges)
    median = float(np.median(var)) if len(var) else None
    return UncertaintyAnswer(
        edges=edges.tolist(), counts=counts.tolist(), images=len(var), of=of, median=median
    )


def threshold_curve(curve: Curve, *, guaranteed: float | None = None) -> list[ThresholdAnswer]:
    """For thresholds 0.00 to 1.00: how many first hits are as sure, how many of them right.

    Measured on the calibration's queries. The `guaranteed` threshold has a row of its own.
    """
    thresholds = np.union1d(
        np.arange(STEPS + 1) / STEPS, [] if guaranteed is None else [guaranteed]
    )
    confidence, right = np.array(curve.confidence), np.array(curve.right, dtype=bool)
    rows = []
    for threshold in thresholds.tolist():
        kept = right[confidence >= threshold]
        answered, matches = len(kept), int(kept.sum())
        rows.append(
            ThresholdAnswer(
                threshold=threshold,
                coverage=answered / max(len(right), 1),
                precision=matches / answered if answered else None,
                answered=answered,
                right=matches,
            )
        )
    return rows


def reliability(curve: Curve, bins: int = 10) -> list[ReliabilityAnswer]:
    """Reliability diagram in bins of equally many queries; equal confidences stay together."""
    if not curve.confidence:
        return []
    found = reliability_bins(
        torch.tensor(curve.confidence, dtype=torch.float64),
        torch.tensor(curve.right, dtype=torch.float64),
        definition="probability",
        bins=bins,
    )
    rows = zip(*(part.tolist() for part in found), strict=True)
    return [
        ReliabilityAnswer(confidence=confidence, right=right, queries=int(queries))
        for confidence, right, queries in rows
        if queries
    ]


def _calibration(calibration: Calibration) -> CalibrationAnswer:
    calibration = _without_path(calibration)
    guarantee = calibration.guarantee
    return CalibrationAnswer(
        **asdict(guarantee) | asdict(calibration.origin),  # the model takes what it has fields for
        made_with=explain.made_with(calibration),
        left_out=explain.copies_left_out(calibration),
        guaranteed=explain.guaranteed(guarantee),
        shown=explain.shown(calibration.prediction_set),
        no_match=explain.no_match_rule(calibration),
        novelty_level=calibration.novelty_level,
        quality=asdict(calibration.quality),
        curve=threshold_curve(calibration.curve, guaranteed=guarantee.threshold),
        reliability=reliability(calibration.curve),
    )


def _without_path(calibration: Calibration) -> Calibration:
    """The source of the labelled queries by its name alone."""
    name = Path(calibration.origin.source).name
    return replace(calibration, origin=replace(calibration.origin, source=name))


def _item_fields(name: str, metadata: Metadata) -> dict[str, Any]:
    item, label = item_of(name), metadata.get("label")
    place = f"/v1/items/{item}"
    return {
        "item": item,
        "id": name,
        "label": None if label is None else str(label),
        "metadata": {key: value for key, value in metadata.items() if key != PATH},
        "links": Links(
            item=place, thumbnail=f"{place}/thumbnail", neighbours=f"{place}/neighbours"
        ),
    }
