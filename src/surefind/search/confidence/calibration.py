"""Calibration of an index: confidence, verdicts, guarantee, and how good they are."""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefind import metrics
from surefind.embeddings import Embeddings
from surefind.engines.engine import Engine
from surefind.engines.knn import Nearest
from surefind.functional.distance import HitDistances
from surefind.search.confidence.conformal import (
    Novelty,
    Showing,
    how_many,
    novelty_values,
    verdicts,
)
from surefind.search.confidence.evidence import NEIGHBOURS, Numbers, Seen, see
from surefind.search.confidence.guarantee import Promise
from surefind.search.confidence.match_model import ConfidenceModel
from surefind.search.confidence.variance_heads import VarianceHeads
from surefind.search.neighbourhoods import Neighbourhoods, known_around


@dataclass(frozen=True)
class Quality:
    """Of the first hit; each query judged by a fit to other classes.

    AUROCs are averaged within the folds of that cross-fitting (None where no fold has right and
    wrong first hits), ECE is debiased.
    """

    right: float  # share of queries whose first hit is a match
    auroc: float | None  # of telling wrong first hits from right ones
    aurc: float
    ece: float
    brier: float
    baseline_auroc: float | None  # the same by the nearest distance alone
    baseline_ece: float
    baseline_brier: float
    floor: float  # ECE of a perfect model with as many queries
    baseline_floor: float
    ratio_auroc: float | None  # of d1/d20, which needs no labels


@dataclass(frozen=True)
class Curve:
    """What was said of each query's first hit by a fit to other classes, and the truth."""

    confidence: tuple[float, ...]
    baseline: tuple[float, ...]  # by the nearest distance alone
    right: tuple[bool, ...]
    fold: tuple[int, ...] = ()  # queries of one fold were judged by one fit


def quality_of(curve: Curve, seen: Seen) -> Quality:
    """Measure a curve, beside the distances of the same queries."""
    right, fold = torch.tensor(curve.right), torch.tensor(curve.fold)
    own, other = (
        torch.tensor(sure, dtype=torch.float64) for sure in (curve.confidence, curve.baseline)
    )

    def auroc(uncertainty: Numbers) -> float | None:
        found = metrics.auroc_within(torch.from_numpy(uncertainty), ~right, fold)
        return None if math.isnan(found) else found

    return Quality(
        right=float(right.double().mean()),
        auroc=auroc(-np.array(curve.confidence)),
        aurc=metrics.aurc(-own, ~right),
        ece=metrics.debiased_calibration_error(own, right),
        brier=float(metrics.brier_score(own, right).mean()),
        baseline_auroc=auroc(seen.distance[:, 0]),
        baseline_ece=metrics.debiased_calibration_error(other, right),
        baseline_brier=float(metrics.brier_score(other, right).mean()),
        floor=metrics.calibration_floor(own),
        baseline_floor=metrics.calibration_floor(other),
        ratio_auroc=auroc(distance_ratio(seen)),
    )


def distance_ratio(seen: Seen) -> Numbers:
    """d1/d20 of squared distances, (Q,); 1 between copies, which cannot be distinguished."""
    nearest, farthest = seen.distance[:, 0], seen.profile[:, -1]
    return np.divide(nearest, farthest, out=np.ones_like(nearest), where=farthest > 0)


FOREIGN_RATE = 0.01  # of the queries that belong here, called foreign


class Judged(NamedTuple):
    """What a calibration says of Q queries with H hits each."""

    confidence: Numbers  # (Q, H)
    belongs: Numbers  # (Q,), p-value
    verdict: list[str]
    show: NDArray[np.int64]  # (Q,), so many hits hold a match with the stated chance


@dataclass(frozen=True)
class Origin:
    """What a calibration was made with, and for."""

    fingerprint: str  # of the model that made the rows
    ranking: str
    created: str
    source: str  # of the labelled queries
    queries: int
    classes: int
    without_match: int  # queries that no image of the gallery matches
    gallery: int  # images that were searched
    copies: int = 0  # images that are copies of a query: neither its hits nor asked again
    remarks: tuple[str, ...] = ()  # what weakens the promise


@dataclass(frozen=True)
class Calibration:
    """Fitted by `fit_calibration`; kept with an index."""

    origin: Origin
    model: ConfidenceModel
    novelty: Novelty
    promise: Promise
    showing: Showing
    quality: Quality
    curve: Curve
    usual: dict[str, tuple[float, ...]]  # quantiles of columns, to see when queries change
    foreign_rate: float = FOREIGN_RATE

    def judge(self, seen: Seen) -> Judged:
        confidence = self.model.confidence(seen)
        belongs = self.novelty.p_value(novelty_values(seen))
        verdict = verdicts(
            confidence[:, 0],
            belongs,
            threshold=self.promise.threshold,
            foreign_rate=self.foreign_rate,
        )
        return Judged(confidence, belongs, verdict, how_many(confidence, self.showing.level))

    def summary(self) -> dict[str, Any]:
        """For people: what it was made with, what it promises, how good it is."""
        return {
            "origin": asdict(self.origin),
            "promise": asdict(self.promise),
            "showing": asdict(self.showing),
            "quality": asdict(self.quality),
            "foreign_rate": self.foreign_rate,
            "columns": list(self.model.names),
        }


DOUBTED = 10  # neighbours of a query whose doubt is evidence


@dataclass(frozen=True)
class Calibrated:
    """A calibration, and what it needs to know of the gallery."""

    calibration: Calibration
    neighbourhoods: Neighbourhoods
    heads: VarianceHeads | None = None  # none where they could not be learned

    def see(
        self,
        engine: Engine,
        query: Embeddings,
        near: Nearest,
        *,
        distances: HitDistances | None = None,
        inside: bool = False,
    ) -> Seen:
        """Of queries with at least NEIGHBOURS hits; `inside` if they are rows of the gallery."""
        near = near.at((slice(None), slice(NEIGHBOURS)))
        means = engine.space.means(near.vectors[:, :DOUBTED]).astype(np.float32)
        everyone = np.concatenate([query.mean.numpy(), means.reshape(-1, engine.space.dim)])
        doubt = doubt_of(self.heads, torch.from_numpy(everyone))  # all in one pass
        return see(
            engine.space,
            query,
            near,
            around=known_around(engine, self.neighbourhoods, near),
            doubt=doubt[: len(query)],
            near_doubt=doubt[len(query) :].reshape(len(query), -1).mean(axis=1),
            distances=distances,
            inside=np.ones(len(query), dtype=bool) if inside else None,
        )


def doubt_of(heads: VarianceHeads | None, vectors: Tensor) -> Numbers:
    """Log variance of vectors (n, D), (n,); zero where there are no heads."""
    if heads is None:
        return np.zeros(len(vectors))
    with torch.inference_mode():
        log_var: Tensor = heads(vectors.detach().cpu().float()).mean(dim=1)
    return log_var.double().numpy()
