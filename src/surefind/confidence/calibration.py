"""Calibration: its fitted parts, its quality, how it judges a neighbourhood, its documents."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from surefind.confidence.class_table import LABEL
from surefind.confidence.conformal import (
    Novelty,
    PredictionSetRule,
    chance_of_match,
    novelty_values,
    set_size,
    verdicts,
)
from surefind.confidence.evidence import COLUMNS, NEIGHBOURS, Neighbourhood, Numbers, collect_neighbourhood
from surefind.confidence.guarantee import PrecisionGuarantee
from surefind.confidence.label_model import CLASS_COLUMNS, QUERY_COLUMNS, LabelModel, LabelNeighbourhood
from surefind.confidence.match_model import ConfidenceModel, Logistic, expit
from surefind.confidence.neighbours import LocalDensity, known_density
from surefind.engines.base import Engine, Queries
from surefind.engines.knn import Nearest
from surefind.errors import InvalidFile, SurefindError
from surefind.storage import Documents
from surefind.text import Summary
from surefind.validation import parse

if TYPE_CHECKING:
    from surefind.confidence.variance_heads import VarianceHeads

LABELS, NEIGHBOURHOODS, PRIOR = "labels", "neighbourhoods", "prior"  # what confidence rests on


@dataclass(frozen=True)
class Quality:
    """Cross-fitted quality of the confidence of first hits, beside that of other signals.

    The first hit is the surest one. AUROCs detect wrong first hits and are averaged over folds
    (None where no fold has right and wrong ones); ECE is debiased. `baseline_*` are those of the
    nearest distance and the nearest image.

    Attributes:
        right: Share of queries whose first hit is a match.
        nearest_right: The same of the nearest image (R@1).
        floor: Expected ECE of a perfect model with as many queries.
        ratio_auroc: AUROC of d1/d20, which needs no labels.
        vote_auroc: AUROC of the share of the commonest label among the ten nearest images.
    """

    right: float
    nearest_right: float
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
    vote_auroc: float | None = None


@dataclass(frozen=True)
class Curve:
    """Cross-fitted confidence of each query's first hit, and whether it is right."""

    confidence: tuple[float, ...] = ()
    right: tuple[bool, ...] = ()
    baseline: tuple[float, ...] = ()  # of the nearest image, from its distance alone
    baseline_right: tuple[bool, ...] = ()
    fold: tuple[int, ...] = ()  # of the cross-fitting


NOVELTY_LEVEL = 0.01  # share of genuine queries that get the verdict no_match
COMBINED = 199  # queries from which novelty by distance and by class are both used, at 1 %
LEAST_CONFIDENCE = 0.5  # of a match, whatever the threshold


class LabelAnswers(NamedTuple):
    """Labels of Q queries, most probable first."""

    code: NDArray[np.int64]  # (Q, K), class; -1 where there are fewer
    probability: Numbers  # (Q, K)
    size: NDArray[np.int64]  # (Q,), of the conformal set


class QueryJudgement(NamedTuple):
    """Confidence, novelty and verdict of Q queries with H hits each."""

    confidence: Numbers  # (Q, H), in the order of the hits given; NaN without a label
    p_value: Numbers  # (Q,), of novelty
    verdict: list[str]
    show: NDArray[np.int64]  # (Q,), number of hits to show, the surest first
    labels: LabelAnswers | None = None


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
    evidence: str = NEIGHBOURHOODS  # labels, neighbourhoods, or prior
    field: str = LABEL  # metadata field of the labels
    gallery_id: str = ""  # the guarantee holds for no other
    variant: str = ""  # of the searches it is for, such as those with a filter; "": plain ones


@dataclass(frozen=True, repr=False)
class Calibration(Summary):
    """Fitted calibration of an index."""

    origin: Origin  # model and data it was made with
    model: ConfidenceModel | LabelModel  # P(match) from evidence
    guarantee: PrecisionGuarantee  # of a precision, with its threshold
    prediction_set: PredictionSetRule  # rule for the number of hits or labels to show
    curve: Curve = Curve()  # cross-fitted confidence of each calibration query
    quality: Quality | None = None  # cross-fitted quality; None of a prior
    novelty: Novelty | None = None  # nearest distances, for novelty; None: nothing is novel
    known: Logistic | None = None  # P(the class is in the gallery), of a label model
    unknown: Novelty | None = None  # reference of its log odds, for novelty
    unknown_share: float = 0.0  # expected share of queries whose class is not in the index
    reference_quantiles: dict[str, tuple[float, ...]] = field(default_factory=dict)  # for drift
    novelty_level: float = NOVELTY_LEVEL  # share of genuine queries that get the verdict no_match

    @property
    def threshold(self) -> float:
        """Confidence of a match: guaranteed, or else the requested precision itself."""
        found = self.guarantee.threshold
        return max(self.guarantee.precision if found is None else found, LEAST_CONFIDENCE)

    def judge(self, neighbourhood: Neighbourhood) -> QueryJudgement:
        """Judge hits by their neighbourhoods, without labels."""
        assert isinstance(self.model, ConfidenceModel)
        confidence = self.model.confidence(neighbourhood)
        best_first = -np.sort(-confidence, axis=1)
        p_value = self._p_value(novelty_values(neighbourhood.profile))
        return QueryJudgement(
            confidence,
            p_value,
            self._verdicts(best_first[:, 0], p_value),
            set_size(chance_of_match(best_first), self.prediction_set.level),
        )

    def judge_labels(self, near: LabelNeighbourhood) -> QueryJudgement:
        """Judge the labels of the nearest images."""
        assert isinstance(self.model, LabelModel)
        found, p_value = self.model.probabilities(near), self._p_value(novelty_values(near.distance))
        answers, share = label_answers(found.each, found.first, near.code), np.ones(1)
        if self.known is not None and self.unknown is not None:
            log_odds = self.known.log_odds(found.known)
            share = known_share(log_odds, self.unknown_share)[:, None]
            if self.unknown.queries >= COMBINED:  # novel by either
                p_value = np.minimum(p_value, self.unknown.p_value(-log_odds))
                p_value = np.minimum(2 * p_value, 1)
        rule = self.prediction_set  # not achievable: a set as probable as requested
        level = 1 - rule.miss_rate if rule.level is None else rule.level
        size = set_size(np.cumsum(answers.probability, axis=1), level)
        size = np.minimum(size, np.maximum((answers.code >= 0).sum(axis=1), 1))
        each, sure = found.each * share, answers.probability * share
        least = sure[np.arange(len(sure)), size - 1]
        return QueryJudgement(
            each,
            p_value,
            self._verdicts(sure[:, 0], p_value),
            np.asarray((each >= least[:, None]).sum(axis=1)),
            LabelAnswers(answers.code, sure, size),
        )

    def _p_value(self, novelty: Numbers) -> Numbers:
        return np.ones(len(novelty)) if self.novelty is None else self.novelty.p_value(novelty)

    def _verdicts(self, confidence: Numbers, p_value: Numbers) -> list[str]:
        return verdicts(confidence, p_value, threshold=self.threshold, novelty_level=self.novelty_level)

    def _facts(self) -> dict[str, object]:
        guaranteed = "not guaranteed" if self.guarantee.threshold is None else "guaranteed"
        facts: dict[str, object] = {
            "evidence": self.origin.evidence,
            "queries": self.origin.queries,
            "classes": self.origin.classes,
            "precision": f"{self.guarantee.precision:.0%} {guaranteed}",
            "threshold": self.threshold,
        }
        if self.quality is not None:
            facts |= {"auroc": self.quality.auroc, "ece": self.quality.ece}
        return facts

    def summary(self) -> dict[str, Any]:
        """JSON-compatible summary: origin, guarantee, prediction set, quality."""
        return {
            "origin": asdict(self.origin),
            "guarantee": asdict(self.guarantee),
            "prediction_set": asdict(self.prediction_set),
            "quality": None if self.quality is None else asdict(self.quality),
            "threshold": self.threshold,
            "novelty_level": self.novelty_level,
            "columns": list(self.model.names),
        }


def known_share(log_odds: Numbers, unknown_share: float) -> Numbers:
    """P(the class is in the gallery), from its log odds at even shares, (Q,)."""
    if not unknown_share:
        return np.ones(len(log_odds))
    return expit(log_odds + np.log((1 - unknown_share) / unknown_share))


def label_answers(each: Numbers, first: NDArray[np.bool_], code: NDArray[np.int64]) -> LabelAnswers:
    """Sort the classes of the nearest images (Q, K) by probability."""
    own = np.where(first, each, 0.0)
    order = np.argsort(np.where(first, -own, np.inf), axis=1, kind="stable")
    rows = np.arange(len(own))[:, None]
    return LabelAnswers(np.where(first, code, -1)[rows, order], own[rows, order], np.ones(len(own), np.int64))


LOG_VAR_NEIGHBOURS = 10  # neighbours whose mean log variance is evidence


@dataclass(frozen=True)
class Calibrated:
    """Calibration with the local density of the gallery and the variance heads."""

    calibration: Calibration
    density: LocalDensity
    heads: VarianceHeads | None = None  # None if they were not learned

    def collect_neighbourhood(
        self, engine: Engine, query: Queries, near: Nearest, *, inside: bool = False
    ) -> Neighbourhood:
        """Neighbourhood of queries with >= NEIGHBOURS hits; `inside`: they are gallery rows."""
        near = near.at((slice(None), slice(NEIGHBOURS)))
        means = engine.space.means(near.vectors[:, :LOG_VAR_NEIGHBOURS]).astype(np.float32)
        vectors = np.concatenate([query.mean.astype(np.float32), means.reshape(-1, engine.space.dim)])
        log_var = np.zeros(len(vectors)) if self.heads is None else self.heads.log_var(vectors)  # one pass
        return collect_neighbourhood(
            engine.space,
            query.var,
            near,
            hit_knn_distances=known_density(engine, self.density, near),
            log_var=log_var[: len(near.keys)],
            neighbour_log_var=log_var[len(near.keys) :].reshape(len(near.keys), -1).mean(axis=1),
            inside=np.ones(len(near.keys), dtype=bool) if inside else None,
        )


def is_stale(calibration: Calibration, images: int) -> bool:
    """Whether the gallery changed too much since the calibration."""
    then = calibration.origin.gallery
    return abs(images - then) > MOST_CHANGE * then


SCHEMA = 3
CALIBRATION = "calibration"  # prefix of the document names
QUERIES = "labelled queries"  # document, kept to calibrate again
MOST_CHANGE = 0.2  # of the number of images, relative; beyond it a calibration is stale
REMEDY = "calibrate again: surefind calibrate INDEX DATA"


def document_prefix(variant: str = "") -> str:
    """Return the beginning of the names of a calibration's documents."""
    return f"{CALIBRATION}:{sha256(variant.encode()).hexdigest()[:16]}." if variant else f"{CALIBRATION}."


def calibration_documents(calibrated: Calibrated) -> dict[str, bytes | None]:
    """Return the documents of a calibration; None deletes one."""
    from safetensors.torch import save

    heads, prefix = calibrated.heads, document_prefix(calibrated.calibration.origin.variant)
    facts = {"schema": SCHEMA, "calibration": asdict(calibrated.calibration), "heads": heads is not None}
    return {
        f"{prefix}json": json.dumps(facts, allow_nan=False).encode(),
        f"{prefix}density": calibrated.density.to_bytes(),
        f"{prefix}heads": None if heads is None else save(heads.tensors()),
    }


def read_calibration(documents: Documents, *, fingerprint: str, ranking: str, variant: str = "") -> Calibrated:
    """Read a calibration; raise InvalidFile if it is damaged or of another model or ranking."""
    path, prefix = documents.path, document_prefix(variant)
    try:
        found = documents.read(prefix)
        facts = json.loads(found[f"{prefix}json"])
        if facts["schema"] != SCHEMA:
            raise InvalidFile(f"{path}: the calibration has schema {facts['schema']!r}, this version reads {SCHEMA}")
        calibration = parse(Calibration, facts["calibration"], where=str(path))
        check_origin(calibration.origin, fingerprint, ranking)
        known = COLUMNS.keys() | CLASS_COLUMNS.keys() | QUERY_COLUMNS.keys()
        if unknown := set(calibration.model.names) - known:
            raise InvalidFile(f"{path}: the calibration has evidence that this version does not know: {min(unknown)}")
        heads = None
        if facts["heads"]:
            from safetensors.torch import load

            from surefind.confidence.variance_heads import VarianceHeads

            heads = VarianceHeads.from_tensors(load(found[f"{prefix}heads"]))
        return Calibrated(calibration, LocalDensity.from_bytes(found[f"{prefix}density"]), heads)
    except SurefindError as error:
        raise InvalidFile(error.problem, fix=REMEDY) from error
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise InvalidFile(f"the calibration in {path} cannot be read: {error}", fix=REMEDY) from error


def check_origin(origin: Origin, fingerprint: str, ranking: str) -> None:
    """Raise InvalidFile if a calibration is of another model or ranking."""
    if (origin.fingerprint, origin.ranking) != (fingerprint, ranking):
        raise InvalidFile(
            f"this is the calibration of another index: model {origin.fingerprint[:12]} by "
            f"{origin.ranking} distance, this index has {fingerprint[:12]} by {ranking}",
            fix=REMEDY,
        )
