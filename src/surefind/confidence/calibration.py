"""Calibration: its fitted parts, its quality, how it judges a neighbourhood, its documents."""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
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
from surefind.confidence.evidence import (
    COLUMNS,
    NEIGHBOURS,
    Neighbourhood,
    Numbers,
    collect_neighbourhood,
)
from surefind.confidence.guarantee import PrecisionGuarantee
from surefind.confidence.match_model import ConfidenceModel
from surefind.confidence.variance_heads import VarianceHeads
from surefind.embeddings import Embeddings
from surefind.engines.base import Engine
from surefind.engines.knn import Nearest
from surefind.errors import InvalidFile, SurefindError
from surefind.functional.distance import HitDistances
from surefind.settings import parse
from surefind.storage import Documents


@dataclass(frozen=True)
class Quality:
    """Cross-fitted quality of the confidence of first hits, beside that of distances.

    AUROCs detect wrong first hits and are averaged over folds (None where no fold has right and
    wrong ones); ECE is debiased. `baseline_*` are those of the nearest distance.

    Attributes:
        right: Share of queries whose first hit is a match.
        floor: Expected ECE of a perfect model with as many queries.
        ratio_auroc: AUROC of d1/d20, which needs no labels.
    """

    right: float
    auroc: float | None
    aurc: float
    ece: float
    brier: float
    baseline_auroc: float | None
    baseline_ece: float
    baseline_brier: float
    floor: float
    baseline_floor: float
    ratio_auroc: float | None


@dataclass(frozen=True)
class Curve:
    """Cross-fitted confidence of each query's first hit, and whether it is right."""

    confidence: tuple[float, ...]
    baseline: tuple[float, ...]  # from the nearest distance alone
    right: tuple[bool, ...]
    fold: tuple[int, ...] = ()  # of the cross-fitting


def quality_of(curve: Curve, neighbourhood: Neighbourhood) -> Quality:
    """Quality of a curve, and of the distances of the same queries."""
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
        baseline_auroc=auroc(neighbourhood.distance[:, 0]),
        baseline_ece=metrics.debiased_calibration_error(other, right),
        baseline_brier=float(metrics.brier_score(other, right).mean()),
        floor=metrics.calibration_floor(own),
        baseline_floor=metrics.calibration_floor(other),
        ratio_auroc=auroc(distance_ratio(neighbourhood)),
    )


def distance_ratio(neighbourhood: Neighbourhood) -> Numbers:
    """d1/d20 of squared distances, (Q,); 1 where both are 0."""
    nearest, farthest = neighbourhood.distance[:, 0], neighbourhood.profile[:, -1]
    return np.divide(nearest, farthest, out=np.ones_like(nearest), where=farthest > 0)


NOVELTY_LEVEL = 0.01  # share of genuine queries that get the verdict no_match


class QueryJudgement(NamedTuple):
    """Confidence, novelty and verdict of Q queries with H hits each."""

    confidence: Numbers  # (Q, H)
    p_value: Numbers  # (Q,), of novelty
    verdict: list[str]
    show: NDArray[np.int64]  # (Q,), number of hits to show


@dataclass(frozen=True)
class Origin:
    """Model and data of a calibration."""

    fingerprint: str  # of the model
    ranking: str
    created: str
    source: str  # of the labelled queries
    queries: int
    classes: int
    without_match: int  # queries without a match in the gallery
    gallery: int  # images
    copies: int = 0  # of queries, left out
    remarks: tuple[str, ...] = ()  # weaknesses of the data


@dataclass(frozen=True)
class Calibration:
    """Fitted calibration of an index."""

    origin: Origin  # model and data it was made with
    model: ConfidenceModel  # P(match) from evidence
    novelty: Novelty  # reference for the novelty p-value
    guarantee: PrecisionGuarantee  # of a precision, with its threshold
    prediction_set: PredictionSetRule  # rule for the number of hits to show
    quality: Quality  # cross-fitted quality
    curve: Curve  # cross-fitted confidence of each calibration query
    reference_quantiles: dict[str, tuple[float, ...]]  # evidence of first hits, for drift
    novelty_level: float = NOVELTY_LEVEL  # share of genuine queries that get the verdict no_match

    def judge(self, neighbourhood: Neighbourhood) -> QueryJudgement:
        """Return confidence, p-value, verdict and number of hits to show, per query."""
        confidence = self.model.confidence(neighbourhood)
        p_value = self.novelty.p_value(novelty_values(neighbourhood))
        verdict = verdicts(
            confidence[:, 0],
            p_value,
            threshold=self.guarantee.threshold,
            novelty_level=self.novelty_level,
        )
        return QueryJudgement(
            confidence, p_value, verdict, set_size(confidence, self.prediction_set.level)
        )

    def summary(self) -> dict[str, Any]:
        """JSON-compatible summary: origin, guarantee, prediction set, quality."""
        return {
            "origin": asdict(self.origin),
            "guarantee": asdict(self.guarantee),
            "prediction_set": asdict(self.prediction_set),
            "quality": asdict(self.quality),
            "novelty_level": self.novelty_level,
            "columns": list(self.model.names),
        }


LOG_VAR_NEIGHBOURS = 10  # neighbours whose mean log variance is evidence


@dataclass(frozen=True)
class Calibrated:
    """Calibration with the local density of the gallery and the variance heads."""

    calibration: Calibration
    density: LocalDensity
    heads: VarianceHeads | None = None  # None if they were not learned

    def collect_neighbourhood(
        self,
        engine: Engine,
        query: Embeddings,
        near: Nearest,
        *,
        distances: HitDistances | None = None,
        inside: bool = False,
    ) -> Neighbourhood:
        """Neighbourhood of queries with >= NEIGHBOURS hits; `inside`: they are gallery rows."""
        near = near.at((slice(None), slice(NEIGHBOURS)))
        means = engine.space.means(near.vectors[:, :LOG_VAR_NEIGHBOURS]).astype(np.float32)
        vectors = np.concatenate([query.mean.numpy(), means.reshape(-1, engine.space.dim)])
        log_var = log_var_of(self.heads, torch.from_numpy(vectors))  # one pass
        return collect_neighbourhood(
            engine.space,
            query,
            near,
            hit_knn_distances=known_density(engine, self.density, near),
            log_var=log_var[: len(query)],
            neighbour_log_var=log_var[len(query) :].reshape(len(query), -1).mean(axis=1),
            distances=distances,
            inside=np.ones(len(query), dtype=bool) if inside else None,
        )


def log_var_of(heads: VarianceHeads | None, vectors: Tensor) -> Numbers:
    """Log variance of vectors (n, D), (n,); 0 without heads."""
    if heads is None:
        return np.zeros(len(vectors))
    with torch.inference_mode():
        log_var: Tensor = heads(vectors.detach().cpu().float()).mean(dim=1)
    return log_var.double().numpy()


SCHEMA = 1
CALIBRATION = "calibration"  # prefix of the document names
FACTS, DENSITY, HEADS = (f"{CALIBRATION}.{its}" for its in ("json", "density", "heads"))
REMEDY = "calibrate again: surefind calibrate INDEX DATA"


def calibration_documents(calibrated: Calibrated) -> dict[str, bytes | None]:
    """Return the documents of a calibration; None deletes one."""
    heads = calibrated.heads
    facts = {
        "schema": SCHEMA,
        "calibration": asdict(calibrated.calibration),
        "heads": heads is not None,
    }
    return {
        FACTS: json.dumps(facts, allow_nan=False).encode(),
        DENSITY: calibrated.density.to_bytes(),
        HEADS: None if heads is None else save(heads.tensors()),
    }


def read_calibration(documents: Documents, *, fingerprint: str, ranking: str) -> Calibrated:
    """Read a calibration; raise InvalidFile if it is damaged or of another model or ranking."""
    path = documents.path
    try:
        found = documents.read(CALIBRATION)
        facts = json.loads(found[FACTS])
        if facts["schema"] != SCHEMA:
            raise InvalidFile(
                f"{path}: the calibration has schema {facts['schema']!r}, this version "
                f"reads {SCHEMA}"
            )
        calibration = parse(Calibration, facts["calibration"], where=str(path))
        check_origin(calibration.origin, fingerprint, ranking)
        if unknown := set(calibration.model.names) - COLUMNS.keys():
            raise InvalidFile(
                f"{path}: the calibration has evidence that this version does not know: "
                f"{min(unknown)}"
            )
        heads = VarianceHeads.from_tensors(load(found[HEADS])) if facts["heads"] else None
        return Calibrated(calibration, LocalDensity.from_bytes(found[DENSITY]), heads)
    except SurefindError as error:
        raise InvalidFile(error.problem, fix=REMEDY) from error
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise InvalidFile(
            f"the calibration in {path} cannot be read: {error}", fix=REMEDY
        ) from error


def check_origin(origin: Origin, fingerprint: str, ranking: str) -> None:
    """Raise InvalidFile if a calibration is of another model or ranking."""
    if (origin.fingerprint, origin.ranking) != (fingerprint, ranking):
        raise InvalidFile(
            f"this is the calibration of another index: model {origin.fingerprint[:12]} by "
            f"{origin.ranking} distance, this index has {fingerprint[:12]} by {ranking}",
            fix=REMEDY,
        )
