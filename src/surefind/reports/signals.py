"""Uncertainty signals of a search: learned variances and training-free distances."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefind.confidence.match_model import fit_logistic, folds_of
from surefind.embeddings import Embeddings, Gaussians
from surefind.engines.knn import Neighbours, nearest_rows
from surefind.functional import gallery_vectors, paired_distance_variance, query_vectors
from surefind.functional.vmf import sphere_terms
from surefind.images.matches import Rows

RANKINGS = ("means", "expected")
RANKS = (2, 10, 20)  # of the neighbours whose distance the nearest one's is compared with
DEPTH = RANKS[-1]  # neighbours that the signals look at
COSINE = "nearest_cosine"
TRAINING_FREE = ("nearest_distance", *(f"ratio_1_{rank}" for rank in RANKS), COSINE)

SIGNAL_NAMES = {
    "query_var": "query variance",
    "pair_var": "variance of the pair, cov[Δ]",
    "distance_std": "spread of the distance",
    "nearest_distance": "nearest distance d₁",
    "ratio_1_2": "d₁/d₂",
    "ratio_1_10": "d₁/d₁₀",
    "ratio_1_20": "d₁/d₂₀",
    "nearest_cosine": "cosine + Platt",
    "confidence": "surefind's confidence",  # of an index
    "label_vote": "label vote of 10",
}
RANKING_NAMES = {"means": "distance of means", "expected": "expected distance"}
PENALTY = 1e-3  # of the logistic fit
ENOUGH = 4000  # queries to fit two numbers to

Signals = dict[str, Tensor]
Values = NDArray[np.float64]


def signal_name(signal: str) -> str:
    """Return the name shown to people; an unknown signal keeps its own."""
    return SIGNAL_NAMES.get(signal, signal)


def ranking_name(ranking: str) -> str:
    return RANKING_NAMES[ranking]


def is_learned(signal: str) -> bool:
    return signal not in TRAINING_FREE


def neighbours(
    ranking: str, query: Embeddings, gallery: Embeddings, k: int, *, itself: Rows | None = None
) -> Neighbours:
    """Return the k nearest; distances are |mu_q - mu_x|^2 ("means") or E|q - x|^2 ("expected")."""
    own = None if itself is None else torch.from_numpy(itself)
    if ranking == "means":
        return nearest_rows(query.mean, gallery.mean, k, itself=own)
    rows, distance = nearest_rows(query_vectors(query), gallery_vectors(gallery), k, itself=own)
    if isinstance(query, Gaussians):
        return Neighbours(rows, distance + query.dim * query.var.float()[:, None])
    length = sphere_terms(query.spread, query.dim).length.float()[:, None]
    return Neighbours(rows, 2 - 2 * length + length * distance)


def uncertainty_signals(
    query: Embeddings, gallery: Embeddings, found: Neighbours, *, by_means: Neighbours, learned: bool
) -> Signals:
    r"""Return one value per query and signal, higher is less sure, (Q,) float64.

    query_var         v_q, or 1/kappa on the sphere
    pair_var          v_q + v_x, the cov[Delta] of the query and its top hit x
    distance_std      sqrt Var|q - x|^2
    nearest_distance  d_1; ratio_1_2, ratio_1_10 and ratio_1_20 are d_1/d_2, d_1/d_10 and d_1/d_20
    nearest_cosine    1 - cos(mu_q, mu_x1)

    `found` are the hits of any ranking. d_k = |mu_q - mu_xk|^2 are the distances in `by_means`,
    the neighbours by mean distance, so that training-free signals hold no learned variance. Ratios
    that need more neighbours than there are, and variances that were not learned, are left out.
    Between duplicates, 0/0, a ratio is 1.
    """
    signals: Signals = {}
    if learned:
        top = gallery[found.rows[:, 0]]
        signals["query_var"] = query.var
        signals["pair_var"] = signals["query_var"] + top.var
        signals["distance_std"] = paired_distance_variance(query, top).clamp(min=0).sqrt()
    distance = by_means.distance.double()
    signals["nearest_distance"] = distance[:, 0]
    for rank in RANKS:
        if distance.shape[1] >= rank:
            signals[f"ratio_1_{rank}"] = (distance[:, 0] / distance[:, rank - 1]).nan_to_num(1.0)
    # 1 - cos = [d - (|q| - |x|)^2] / (2 |q| |x|): no digit is lost between near duplicates.
    length, lengths = (torch.linalg.vector_norm(x.mean, dim=1).double() for x in (query, gallery))
    of_nearest = lengths[by_means.rows[:, 0]]
    beyond = distance[:, 0] - (length - of_nearest).square()
    signals[COSINE] = (beyond.clamp(min=0) / (2 * length * of_nearest)).nan_to_num(1.0)
    return {name: signal.to(torch.float64) for name, signal in signals.items()}


def crossfit_probability(
    uncertainty: Values, correct: NDArray[np.bool_], groups: NDArray[np.generic], *, platt: bool = False
) -> Values:
    """Return P(the top hit is right) for each query, from a fit to the queries of other groups.

    The fit is logistic in the logit of the rank among the fitted queries, so that a monotone map
    of the uncertainty changes nothing; with `platt`, in the uncertainty itself (Platt scaling, the
    usual thing to do with a cosine). At most 4000 queries are fitted to. A fit that saw only right
    or only wrong ones gives their share, (right + 1/2) / (n + 1). With a single group: nan.
    """
    probability = np.full(len(uncertainty), np.nan)
    fold = folds_of(groups)
    if not fold.any():
        return probability
    for number in range(int(fold.max()) + 1):
        judged, fitted = fold == number, np.flatnonzero(fold != number)
        some = fitted[:: math.ceil(len(fitted) / ENOUGH)]
        right, n = int(correct[some].sum()), len(some)
        if right in (0, n):
            probability[judged] = (right + 0.5) / (n + 1)
            continue
        scaled = uncertainty[np.r_[some, np.flatnonzero(judged)]]
        if not platt:  # logit of the rank; ties are half way between both sides
            known = np.sort(scaled[:n])
            sides = (np.searchsorted(known, scaled, side=side) for side in ("left", "right"))
            rank = (sum(sides) / 2 + 0.5) / (n + 1)
            scaled = np.log(rank / (1 - rank))
        model = fit_logistic(scaled[:n, None], correct[some], directions=(0,), penalty=PENALTY)
        probability[judged] = model.probability(scaled[n:, None])
    return probability
