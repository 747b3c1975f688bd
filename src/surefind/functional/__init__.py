"""Pure functions on embeddings: the triplet likelihood, distances and divergences."""

from surefind.functional.distance import (
    HitDistances,
    distance_variance,
    expected_distance,
    hit_distances,
    hit_match_probability,
    match_probability,
    paired_distance_variance,
    squared_distances,
)
from surefind.functional.divergence import kl_to_prior
from surefind.functional.fusion import expand, fuse
from surefind.functional.ranking import asking_vectors, ranking_keys, stored_vectors
from surefind.functional.triplet import (
    GaussianTriplets,
    Moments,
    SphereTriplets,
    log_prob,
    moments,
    nearer_probability,
    triplet_log_prob,
    triplet_moments,
)

__all__ = [
    "GaussianTriplets",
    "HitDistances",
    "Moments",
    "SphereTriplets",
    "asking_vectors",
    "distance_variance",
    "expand",
    "expected_distance",
    "fuse",
    "hit_distances",
    "hit_match_probability",
    "kl_to_prior",
    "log_prob",
    "match_probability",
    "moments",
    "nearer_probability",
    "paired_distance_variance",
    "ranking_keys",
    "squared_distances",
    "stored_vectors",
    "triplet_log_prob",
    "triplet_moments",
]
