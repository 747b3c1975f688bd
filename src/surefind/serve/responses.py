"""Response models and the functions that fill them; no server paths, NaN or infinity."""

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, Field

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
from surefind.serve.service import MAX_K, PATH, TimedResult
from surefind.serve.state import AppState

BINS = 32  # of the variance histogram

Number = float | None  # NaN and infinity become null in JSON


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
    seconds: dict[str, float] = Field(description="Of decode, wait, encode, search; total.")


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
    own = {
        "query": QueryAnswer(var=result.query_var, item=item, **found.query),
        "sentence": explain.meaning(result.verdict, result.novelty_p_value, calibration) if judged else None,
        "answer": explain.answer_of(result.label, result.label_confidence, result.label_set, result.verdict),
        "advice": explain.how_many_to_look_at(result.verdict, result.show, calibration, listed=len(result.hits)),
        "uncalibrated": result.uncalibrated and served.without_folder(result.uncalibrated),
        "calibrated": explain.made_with(_without_path(calibration)) if judged and calibration is not None else None,
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
    metadata = rows.metadata[0]
    fields = _item_fields(rows.ids[0], metadata, label_of(metadata))
    return Item(**fields, var=float(space.var(rows.embeddings)[0]))


def info_answer(state: AppState) -> InfoAnswer:
    """Describe the index, its calibration and the limits. Not for the event loop."""
    served, (sample, _) = state.served, state.overview()
    index = served.index
    facts, calibration, name = index.describe(), index.calibration, index.folder.resolve().name
    change = None if calibration is None else explain.gallery_change(calibration, served.images)
    uncalibrated = calibration is None or calibration.origin.evidence == PRIOR
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
        "samples": samples_to_try(sample)
        if state.samples is None
        else [
            SampleAnswer(name=name, image=f"/v1/samples/{n}", item=None, thumbnail=f"/v1/samples/{n}")
            for n, (name, _) in enumerate(state.samples)
        ],
        "report": None if state.report is None else "/report/",
    }
    return InfoAnswer(**facts | own)


def samples_to_try(sample: GallerySample, count: int = 8) -> list[SampleAnswer]:
    """Choose indexed images as example queries: one of each label before a second of any."""
    seen: Counter[str | None] = Counter()
    order = []  # how many of its label come before each image
    for label in sample.labels:
        order.append(seen[label])
        seen[label] += 1
    chosen = [sample.ids[row] for row in np.argsort(order, kind="stable")[:count]]
    items = ((name, item_of(name)) for name in chosen)
    return [SampleAnswer(name=name, image=None, item=item, thumbnail=_links(item).thumbnail) for name, item in items]


def variance_histogram(var: NDArray[np.float64], of: int) -> VarianceHistogram:
    edges, counts = np.empty(0), np.empty(0, np.int64)
    if len(var) and var.max() - var.min() > 1e-6 * var.max():  # else they count as equal
        edges = np.geomspace(var.min(), var.max(), BINS + 1)
        counts, _ = np.histogram(var, edges)
    return VarianceHistogram(edges=edges.tolist(), counts=counts.tolist(), images=len(var), of=of)


def threshold_curve(curve: Curve, match_threshold: float) -> list[ThresholdAnswer]:
    """Precision and coverage on the calibration queries, for 0.00 to 1.00 and this threshold."""
    thresholds = np.union1d(np.arange(101) / 100, match_threshold)
    confidence, right = np.array(curve.confidence), np.array(curve.right, dtype=bool)
    rows = []
    for threshold in thresholds.tolist():
        kept = right[confidence >= threshold]
        coverage, precision = len(kept) / max(len(right), 1), kept.mean() if len(kept) else None
        row = {"threshold": threshold, "coverage": coverage, "precision": precision}
        rows.append(ThresholdAnswer(**row, answered=len(kept), right=int(kept.sum())))
    return rows


def reliability(curve: Curve) -> list[ReliabilityAnswer]:
    """Reliability diagram in bins of equal size; equal confidences share a bin."""
    if not curve.confidence:
        return []
    confidence, right = (torch.tensor(part, dtype=torch.float64) for part in (curve.confidence, curve.right))
    found = reliability_bins(confidence, right, definition="probability", bins=10)
    rows = zip(*(part.tolist() for part in found), strict=True)
    return [ReliabilityAnswer(confidence=sure, right=share, queries=int(n)) for sure, share, n in rows if n]


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
    item, shown = item_of(name), {key: value for key, value in metadata.items() if key != PATH}
    return {"item": item, "id": name, "label": label, "metadata": shown, "links": _links(item)}


def _links(item: str) -> Links:
    url = f"/v1/items/{item}"
    return Links(item=url, thumbnail=f"{url}/thumbnail", neighbours=f"{url}/neighbours")
