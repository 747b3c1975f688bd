"""What may tell that a query is in doubt: learned variances beside what distances say for free."""

import torch
from torch import Tensor

from surefind.embeddings import Embeddings, Gaussians
from surefind.engines.exact import Neighbours
from surefind.functional import paired_distance_variance

TRAINING_FREE = ("nearest_distance", "ratio_1_2", "ratio_1_10")  # any model has them

Signals = dict[str, Tensor]


def uncertainty_signals(
    query: Embeddings, gallery: Embeddings, found: Neighbours, *, learned: bool
) -> Signals:
    r"""One value per query, higher is less sure, (Q,) float64.

    query_var         v_q, or 1/kappa on the sphere
    pair_var          v_q + v_x, the cov[Delta] of the query and its nearest x
    distance_std      sqrt Var|q - x|^2
    nearest_distance  d_1; ratio_1_2 and ratio_1_10 are d_1/d_2 and d_1/d_10

    Ratios that need more neighbours than there are, and variances that were not learned, are left
    out. Between duplicates, 0/0, a ratio is 1: they cannot be told apart.
    """
    signals: Signals = {}
    if learned:
        top = gallery[found.rows[:, 0]]
        query_var = variance(query)
        signals["query_var"] = query_var
        signals["pair_var"] = query_var + variance(top)
        signals["distance_std"] = paired_distance_variance(query, top).clamp(min=0).sqrt()
    distance = found.distance.double()
    signals["nearest_distance"] = distance[:, 0]
    for rank in (2, 10):
        if distance.shape[1] >= rank:
            signals[f"ratio_1_{rank}"] = (distance[:, 0] / distance[:, rank - 1]).nan_to_num(1.0)
    return {name: signal.to(torch.float64) for name, signal in signals.items()}


def variance(batch: Embeddings) -> Tensor:
    """Of each image, in the sense in which more is vaguer."""
    return batch.spread if isinstance(batch, Gaussians) else 1 / batch.spread
