"""What people read instead of the names that files and code use."""

from surefind.reports.signals import TRAINING_FREE

SIGNALS = {
    "query_var": "query variance",
    "pair_var": "variance of the pair, cov[Δ]",
    "distance_std": "spread of the distance",
    "nearest_distance": "nearest distance d₁",
    "ratio_1_2": "d₁/d₂",
    "ratio_1_10": "d₁/d₁₀",
    "ratio_1_20": "d₁/d₂₀",
    "nearest_cosine": "cosine + Platt",
}
RANKINGS = {"means": "distance of means", "expected": "expected distance"}


def signal_name(signal: str) -> str:
    """For people; a signal without a name of its own keeps the one it has.

    >>> signal_name("query_var"), signal_name("dropout_var")
    ('query variance', 'dropout_var')
    """
    return SIGNALS.get(signal, signal)


def ranking_name(ranking: str) -> str:
    return RANKINGS.get(ranking, ranking)


def is_learned(signal: str) -> bool:
    """Whether a model must have learned it; distances and their ratios come for free."""
    return signal not in TRAINING_FREE
