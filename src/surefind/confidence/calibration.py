"""Calibration of an index: confidence, verdicts, guarantee, and how good they are."""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefind import metrics
from surefind.confidence.conformal import (
    Novelty,
    PredictionSetRule,
    novelty_values,
    set_size,
    verdicts,
)
from surefind.confidence.density import LocalDensity, known_density
from surefind.confidence.evidence import NEIGHBOURS, Neighbourhood, Numbers, see
from surefind.confidence.guarantee import PrecisionGuarantee
from surefind.confidence.match_model import ConfidenceModel
from surefind.confidence.variance_heads import VarianceHeads
from surefind.embeddings import Embeddings
from surefind.engines.base import Engine
from surefind.engines.knn import Nearest
from surefind.functional.distance import HitDistances


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


def quality_of(curve: Curve, seen: Neighbourhood) -> Quality:
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


def distance_ratio(seen: Neighbourhood) -> Numbers:
    """d1/d20 of squared distances, (Q,); 1 between copies, which cannot be distinguished."""
    nearest, farthest = seen.distance[:, 0], seen.profile[:, -1]
    return np.divide(nearest, farthest, out=np.ones_like(nearest), where=farthest > 0)


NOVELTY_LEVEL = 0.01  # of the queries that belong here, called foreign


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
    remarks: tuple[str, ...] = ()  # what weakens the guarantee


@dataclass(frozen=True)
class Calibration:
    """Fitted by `fit_calibration`; kept with an index."""

    origin: Origin
    model: ConfidenceModel
    novelty: Novelty
    guarantee: PrecisionGuarantee
    showing: PredictionSetRule
    quality: Quality
    curve: Curve
    usual: dict[str, tuple[float, ...]]  # quantiles of columns, to see when queries change
    novelty_level: float = NOVELTY_LEVEL

    def judge(self, seen: Neighbourhood) -> Judged:
        confidence = self.model.confidence(seen)
        belongs = self.novelty.p_value(novelty_values(seen))
        verdict = verdicts(
            confidence[:, 0],
            belongs,
            threshold=self.guarantee.threshold,
            novelty_level=self.novelty_level,
        )
        return Judged(confidence, belongs, verdict, set_size(confidence, self.showing.level))

    def summary(self) -> dict[str, Any]:
        """For people: what it was made with, what it guarantees, how good it is."""
        return {
            "origin": asdict(self.origin),
            "guarantee": asdict(self.guarantee),
            "showing": asdict(self.showing),
            "quality": asdict(self.quality),
            "novelty_level": self.novelty_level,
            "columns": list(self.model.names),
        }


LOG_VAR_NEIGHBOURS = 10  # neighbours of a query whose log_var is evidence


@dataclass(frozen=True)
class Calibrated:
    """A calibration, and what it needs to know of the gallery."""

    calibration: Calibration
    neighbourhoods: LocalDensity
    heads: VarianceHeads | None = None  # none where they could not be learned

    def see(
        self,
        engine: Engine,
        query: Embeddings,
        near: Nearest,
        *,
        distances: HitDistances | None = None,
        inside: bool = False,
    ) -> Neighbourhood:
        """Of queries with at least NEIGHBOURS hits; `inside` if they are rows of the gallery."""
        near = near.at((slice(None), slice(NEIGHBOURS)))
        means = engine.space.means(near.vectors[:, :LOG_VAR_NEIGHBOURS]).astype(np.float32)
        everyone = np.concatenate([query.mean.numpy(), means.reshape(-1, engine.space.dim)])
        log_var = log_var_of(self.heads, torch.from_numpy(everyone))  # all in one pass
        return see(
            engine.space,
            query,
            near,
            around=known_density(engine, self.neighbourhoods, near),
            log_var=log_var[: len(query)],
            neighbour_log_var=log_var[len(query) :].reshape(len(query), -1).mean(axis=1),
            distances=distances,
            inside=np.ones(len(query), dtype=bool) if inside else None,
        )


def log_var_of(heads: VarianceHeads | None, vectors: Tensor) -> Numbers:
    """Log variance of vectors (n, D), (n,); zero where there are no heads."""
    if heads is None:
        return np.zeros(len(vectors))
    with torch.inference_mode():
        log_var: Tensor = heads(vectors.detach().cpu().float()).mean(dim=1)
    return log_var.double().numpy()
