"""Response models and the functions that fill them; no server paths, NaN or infinity."""

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
from surefind.confidence.calibration import PRIOR, Calibration, Curve, Origin
from surefind.confidence.class_table import label_of
from surefind.confidence.guarantee import PrecisionGuarantee
from surefind.engines.base import Rows, Space
from surefind.engines.filters import Metadata
from surefind.functional.ranking import RANKINGS
from surefind.images.decode import FORMATS
from surefind.metrics.calibration import reliability_bins
from surefind.search.query import CONFIDENCE
from surefind.serve.gallery import GallerySample, item_of
from surefind.serve.service import MAX_K, PATH, TimedResult, Timings
from surefind.serve.state import AppState

SAMPLES = 8  # indexed images that the page offers as queries
BINS = 32  # of the variance histogram
CONSTANT = 1e-6  # relative range below which variances count as equal
STEPS = 100  # of the threshold curve

Number = Annotated[
    float | None, BeforeValidator(lambda value: value if value is None or math.isfinite(value) else None)
]


class ErrorAnswer(BaseModel):
    error: dict[Literal["problem", "fix"], str]


class Links(BaseModel):
    item: str
    thumbnail: str
    neighbours: str


class Item(BaseModel):
    item: str = Field(description="Name of the image in URLs.")
    id: str
    label: str | None
    var: Number = Field(description="Variance of the embedding; 1/kappa on the sphere.")
    metadata: dict[str, Any]
    links: Links


class HitAnswer(Item):
    rank: int
    distance: Number = Field(description="Squared distance of the means.")
    expected_distance: Number
    std: Number = Field(description="Standard deviation of the squared distance.")
    confidence: Number = Field(description="Calibrated probability of a match; null if uncalibrated.")


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
    reranked: bool = Field(description="Candidates of the index's ranking, re-ordered.")
    verdict: Literal["match", "unsure", "no_match"] | None
    sentence: str | None = Field(description="Explanation of the verdict.")
    confidence: Number = Field(description="Probability that the first hit is a match.")
    guaranteed: bool = Field(description="Whether the precision of `match` is guaranteed.")
    label: str | None = Field(description="Most probable label; null without labels.")
    label_confidence: Number = Field(description="Its probability.")
    labels: dict[str, float] = Field(description="Probabilities; the rest is none of these.")
    label_set: list[str] = Field(description="Conformal set: the label is one of these.")
    answer: str | None = Field(description="The label, for people.")
    novelty_p_value: Number
    show: int | None = Field(description="Number of hits to show so that a match is among them.")
    advice: str | None
    uncalibrated: str | None = Field(description="Reason for missing confidence.")
    calibrated: str | None = Field(description="Date and data of the calibration.")
    hits: list[HitAnswer]
    index: IndexAnswer
    seconds: Timings


class EmbeddingAnswer(BaseModel):
    family: str
    mean: list[float]
    var: float
    fingerprint: str


class ThresholdAnswer(BaseModel):
    threshold: float
    coverage: float = Field(description="Share of queries at or above the threshold.")
    precision: Number = Field(description="Share of those that are correct.")
    answered: int
    right: int


class ReliabilityAnswer(BaseModel):
    confidence: float = Field(description="Mean confidence of the bin.")
    right: float = Field(description="Share of correct first hits.")
    queries: int


class CalibrationAnswer(BaseModel):
    origin: Origin
    guarantee: PrecisionGuarantee
    quality: dict[str, Number] | None = Field(description="Null of a prior calibration.")
    match_threshold: float = Field(description="Confidence of a match, guaranteed or not.")
    novelty_level: float
    made_with: str
    left_out: str | None = Field(description="The copies as a sentence; null if none.")
    guaranteed: str
    shown: str
    no_match: str
    curve: list[ThresholdAnswer] = Field(description="Measured on the calibration queries.")
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


class VarianceHistogram(BaseModel):
    edges: list[float] = Field(description="Of equal log width; none if all variances are equal.")
    counts: list[int]
    images: int
    of: int


class InfoAnswer(BaseModel):
    name: str
    images: int
    family: str
    dim: int
    ranking: str
    rankings: list[str]
    engine: str
    version: int | None
    created: str | None = None
    fingerprint: str
    surefind: str
    takes_images: bool
    pictures: bool
    limits: LimitsAnswer
    warnings: list[str]
    calibration: CalibrationAnswer | None
    how_to_calibrate: str | None
    samples: list[SampleAnswer]
    variances: VarianceHistogram
    report: str | None


class ReadyAnswer(BaseModel):
    ready: bool
    version: int | None
    images: int | None
    warnings: list[str]
    reload: str | None = Field(description="Why the newest version could not be loaded.")


def search_answer(found: TimedResult) -> SearchAnswer:
    result, served = found.result, found.served
    calibration, judged = served.index.calibration_of(result), result.verdict is not None
    item = item_of(found.query["id"]) if "id" in found.query else None
    made_with = None
    if judged and calibration is not None:
        made_with = explain.made_with(_without_path(calibration))
    own = {
        "query": QueryAnswer(var=result.query_var, item=item, **found.query),
        "sentence": explain.meaning(result.verdict, result.novelty_p_value, calibration) if judged else None,
        "answer": explain.answer_of(result.label, result.label_confidence, result.label_set, result.verdict),
        "advice": explain.how_many_to_look_at(result.verdict, result.show, calibration, listed=len(result.hits)),
        "uncalibrated": result.uncalibrated and served.without_folder(result.uncalibrated),
        "calibrated": made_with,
        "hits": [
            # The label is that of the calibrated field.
            HitAnswer(**vars(hit) | _item_fields(hit.id, hit.metadata, hit.label), rank=rank)
            for rank, hit in enumerate(result.hits, 1)
        ],
        "index": IndexAnswer(images=served.images, version=served.version),
        "seconds": found.seconds,
    }
    return SearchAnswer(**vars(result) | own)


def item_answer(rows: Rows, space: Space) -> Item:
    """Describe the first row."""
    var = float(space.var(rows.embeddings)[0])
    name, metadata = rows.ids[0], rows.metadata[0]
    return Item(**_item_fields(name, metadata, label_of(metadata)), var=var)


def info_answer(state: AppState) -> InfoAnswer:
    """Describe the index, its calibration and the limits. Not for the event loop."""
    served, (sample, _) = state.served, state.overview()
    index = served.index
    facts, calibration, name = index.describe(), index.calibration, index.folder.resolve().name
    change = None if calibration is None else explain.gallery_change(calibration, served.images)
    uncalibrated = calibration is None or calibration.origin.evidence == PRIOR
    samples = samples_to_try(sample)
    if state.samples is not None:
        links = ((one.name, f"/v1/samples/{n}") for n, one in enumerate(state.samples))
        samples = [SampleAnswer(name=one, image=link, item=None, thumbnail=link) for one, link in links]
    own = {
        "name": name,
        "images": served.images,
        "ranking": CONFIDENCE if calibration else index.space.ranking,
        "rankings": (*RANKINGS, CONFIDENCE) if calibration else RANKINGS,
        "engine": str(facts["engine"]).partition("://")[0],
        "version": served.version,
        "surefind": surefind.__version__,
        "takes_images": index.has_model,
        "variances": variance_histogram(sample.every_var, sample.of),
        "pictures": bool(state.picture_roots),
        "limits": {"max_bytes": state.settings.max_bytes, "max_k": MAX_K, "formats": FORMATS},
        "warnings": [*served.warnings, *filter(None, (change, served.reload_error))],
        "calibration": None if calibration is None else _calibration(calibration),
        "how_to_calibrate": f"surefind calibrate {name} DATA" if uncalibrated else None,
        "samples": samples,
        "report": None if state.report is None else "/report/",
    }
    return InfoAnswer(**facts | own)


def samples_to_try(sample: GallerySample, count: int = SAMPLES) -> list[SampleAnswer]:
    """Choose indexed images as example queries: one of each label before a second of any."""
    seen: Counter[str | None] = Counter()
    order = []  # how many of its label come before each image
    for label in sample.labels:
        order.append(seen[label])
        seen[label] += 1
    chosen = [sample.ids[row] for row in np.argsort(order, kind="stable")[:count]]
    return [
        SampleAnswer(name=name, image=None, item=item_of(name), thumbnail=_links(name).thumbnail) for name in chosen
    ]


def variance_histogram(var: NDArray[np.float64], of: int) -> VarianceHistogram:
    edges, counts = np.empty(0), np.empty(0, np.int64)
    if len(var) and var.max() - var.min() > CONSTANT * var.max():
        edges = np.geomspace(var.min(), var.max(), BINS + 1)
        counts, _ = np.histogram(var, edges)
    return VarianceHistogram(edges=edges.tolist(), counts=counts.tolist(), images=len(var), of=of)


def threshold_curve(curve: Curve, match_threshold: float) -> list[ThresholdAnswer]:
    """Precision and coverage on the calibration queries, for 0.00 to 1.00 and this threshold."""
    thresholds = np.union1d(np.arange(STEPS + 1) / STEPS, match_threshold)
    confidence, right = np.array(curve.confidence), np.array(curve.right, dtype=bool)
    answered = [right[confidence >= threshold] for threshold in thresholds]
    return [
        ThresholdAnswer(
            threshold=threshold,
            coverage=len(kept) / max(len(right), 1),
            precision=kept.mean() if len(kept) else None,
            answered=len(kept),
            right=int(kept.sum()),
        )
        for threshold, kept in zip(thresholds.tolist(), answered, strict=True)
    ]


def reliability(curve: Curve) -> list[ReliabilityAnswer]:
    """Reliability diagram in bins of equal size; equal confidences share a bin."""
    if not curve.confidence:
        return []
    found = reliability_bins(
        torch.tensor(curve.confidence, dtype=torch.float64),
        torch.tensor(curve.right, dtype=torch.float64),
        definition="probability",
        bins=10,
    )
    rows = zip(*(part.tolist() for part in found), strict=True)
    return [
        ReliabilityAnswer(confidence=confidence, right=right, queries=int(queries))
        for confidence, right, queries in rows
        if queries
    ]


def _calibration(calibration: Calibration) -> CalibrationAnswer:
    calibration = _without_path(calibration)
    return CalibrationAnswer(
        origin=calibration.origin,
        guarantee=calibration.guarantee,
        match_threshold=calibration.threshold,
        made_with=explain.made_with(calibration),
        left_out=explain.copies_left_out(calibration),
        guaranteed=explain.guaranteed(calibration.guarantee),
        shown=explain.shown(calibration),
        no_match=explain.no_match_rule(calibration),
        novelty_level=calibration.novelty_level,
        quality=None if calibration.quality is None else asdict(calibration.quality),
        curve=threshold_curve(calibration.curve, calibration.threshold),
        reliability=reliability(calibration.curve),
    )


def _without_path(calibration: Calibration) -> Calibration:
    """Replace the path of the labelled queries by its name."""
    name = Path(calibration.origin.source).name
    return replace(calibration, origin=replace(calibration.origin, source=name))


def _item_fields(name: str, metadata: Metadata, label: str | None) -> dict[str, Any]:
    return {
        "item": item_of(name),
        "id": name,
        "label": label,
        "metadata": {key: value for key, value in metadata.items() if key != PATH},
        "links": _links(name),
    }


def _links(name: str) -> Links:
    url = f"/v1/items/{item_of(name)}"
    return Links(item=url, thumbnail=f"{url}/thumbnail", neighbours=f"{url}/neighbours")
