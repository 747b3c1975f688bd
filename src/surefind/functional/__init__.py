"""Pure functions on embeddings: the triplet likelihood, distances, divergences, fusion.

They raise InvalidArgument for arguments of the wrong type, family, shape or range.
"""

from typing import TYPE_CHECKING

from surefind._lazy import lazy_exports
from surefind.functional.distance import (
    distance_variance,
    expected_distance,
    hit_match_probability,
    kl_to_prior,
    match_probability,
    paired_distance_variance,
    squared_distances,
)
from surefind.functional.fusion import expand, fuse
from surefind.functional.ranking import candidate_distances, gallery_vectors, hit_distances, query_vectors, ranking_keys

if TYPE_CHECKING:  # a search does not need them
    from surefind.functional.triplet import Moments, nearer_probability, triplet_log_prob, triplet_moments

__all__ = [
    "Moments",
    "candidate_distances",
    "distance_variance",
    "expand",
    "expected_distance",
    "fuse",
    "gallery_vectors",
    "hit_distances",
    "hit_match_probability",
    "kl_to_prior",
    "match_probability",
    "nearer_probability",
    "paired_distance_variance",
    "query_vectors",
    "ranking_keys",
    "squared_distances",
    "triplet_log_prob",
    "triplet_moments",
]

_LAZY = ("Moments", "nearer_probability", "triplet_log_prob", "triplet_moments")
__getattr__, __dir__ = lazy_exports(__name__, dict.fromkeys(_LAZY, "triplet"))
