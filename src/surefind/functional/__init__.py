"""Pure functions on embeddings: the triplet likelihood, distances, divergences, fusion.

They raise InvalidArgument for arguments of the wrong type, family, shape or range.
"""

from typing import TYPE_CHECKING

from surefind._lazy import lazy_exports

if TYPE_CHECKING:
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
    from surefind.functional.ranking import (
        candidate_distances,
        gallery_vectors,
        hit_distances,
        query_vectors,
        ranking_keys,
    )
    from surefind.functional.triplet import Moments, nearer_probability, triplet_log_prob, triplet_moments

_HOME = {
    "Moments": "triplet",
    "distance_variance": "distance",
    "expand": "fusion",
    "expected_distance": "distance",
    "fuse": "fusion",
    "candidate_distances": "ranking",
    "gallery_vectors": "ranking",
    "hit_distances": "ranking",
    "hit_match_probability": "distance",
    "kl_to_prior": "distance",
    "match_probability": "distance",
    "nearer_probability": "triplet",
    "paired_distance_variance": "distance",
    "query_vectors": "ranking",
    "ranking_keys": "ranking",
    "squared_distances": "distance",
    "triplet_log_prob": "triplet",
    "triplet_moments": "triplet",
}

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

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
