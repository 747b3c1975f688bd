"""What may tell that a query is in doubt: learned variances beside what distances say for free."""

import torch
from torch import Tensor

from surefind.embeddings import Embeddings, Gaussians
from surefind.engines.exact import Neighbours
from surefind.functional import paired_distance_variance

RANKS = (2, 10, 20)  # of the neighbours whose distance the nearest one's is compared with
DEPTH = RANKS[-1]  # neighbours that the signals look at
COSINE = "nearest_cosine"
TRAINING_FREE = ("nearest_distance", *(f"ratio_1_{rank}" for rank in RANKS), COSINE)

Signals = dict[str, Tensor]


def uncertainty_signals(
    query: Embeddings,
    gallery: Embeddings,
    found: Neighbours,
    *,
    by_means: Neighbours,
    learned: bool,
) -> Signals:
    r"""One value per query, higher is less sure, (Q,) float64.

    query_var         v_q, or 1/kappa on the sphere
    pair_var          v_q + v_x, the cov[Delta] of the query and its top hit x
    distance_std      sqrt Var|q - x|^2
    nearest_distance  d_1; ratio_1_2, ratio_1_10 and ratio_1_20 are d_1/d_2, d_1/d_10 and d_1/d_20
    nearest_cosine    1 - cos(mu_q, mu_x1)

    `found` are the hits, whatever ranked them. d_k = |mu_q - mu_xk|^2 are the distances in
    `by_means`, the neighbours by mean distance: what needs no training must hold no learned
    variance. Ratios that need more neighbours than there are, and variances that were not learned,
    are left out. Between duplicates, 0/0, a ratio is 1: they cannot be told apart.
    """
    signals: Signals = {}
    if learned:
        top = gallery[found.rows[:, 0]]
        query_var = variance(query)
        signals["query_var"] = query_var
        signals["pair_var"] = query_var + variance(top)
        signals["distance_std"] = paired_distance_variance(query, top).clamp(min=0).sqrt()
    distance = by_means.distance.double()
    signals["nearest_distance"] = distance[:, 0]
    for rank in RANKS:
        if distance.shape[1] >= rank:
            signals[f"ratio_1_{rank}"] = (distance[:, 0] / distance[:, rank - 1]).nan_to_num(1.0)
    signals[COSINE] = _cosine_distance(query, gallery, by_means)
    return {name: signal.to(torch.float64) for name, signal in signals.items()}


def _cosine_distance(query: Embeddings, gallery: Embeddings, by_means: Neighbours) -> Tensor:
    """1 - cos = [d - (|q| - |x|)^2] / (2 |q| |x|): no digit is lost between near duplicates."""
    length, lengths = (torch.linalg.vector_norm(x.mean, dim=1).double() for x in (query, gallery))
    nearest = lengths[by_means.rows[:, 0]]
    beyond = by_means.distance[:, 0].double() - (length - nearest).square()
    cosine_distance: Tensor = beyond.clamp(min=0) / (2 * length * nearest)
    return cosine_distance.nan_to_num(1.0)


def variance(batch: Embeddings) -> Tensor:
    """Of each image, in the sense in which more is vaguer."""
    return batch.spread if isinstance(batch, Gaussians) else 1 / batch.spread
