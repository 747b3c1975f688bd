"""Pure functions on embeddings: the triplet likelihood, distances, divergences, fusion.

They raise InvalidArgument for arguments of the wrong type, family, shape or range.
"""

from typing import TYPE_CHECKING

from surefind._lazy import lazy_exports

if TYPE_CHECKING:  # searching vectors needs one of these modules
    from surefind.functional.distance import (
        distance_variance,
        expected_distance,
        gallery_vectors,
        hit_match_probability,
        kl_to_prior,
        match_probability,
        paired_distance_variance,
        query_vectors,
        squared_distances,
    )
    from surefind.functional.fusion import expand, fuse
    from surefind.functional.ranking import candidate_distances, hit_distances, ranking_keys
    from surefind.functional.triplet import Moments, nearer_probability, triplet_log_prob, triplet_moments

__all__ = [
    "Moments", "candidate_distances", "distance_variance", "expand", "expected_distance", "fuse", "gallery_vectors",
    "hit_distances", "hit_match_probability", "kl_to_prior", "match_probability", "nearer_probability",
    "paired_distance_variance", "query_vectors", "ranking_keys", "squared_distances", "triplet_log_prob",
    "triplet_moments",
]  # fmt: skip

_RANKING = ("candidate_distances", "hit_distances", "ranking_keys")
_TRIPLET = ("Moments", "nearer_probability", "triplet_log_prob", "triplet_moments")
_HOME = dict.fromkeys(__all__, "distance") | {"expand": "fusion", "fuse": "fusion"}
_HOME |= dict.fromkeys(_RANKING, "ranking") | dict.fromkeys(_TRIPLET, "triplet")
__getattr__, __dir__ = lazy_exports(__name__, _HOME)
