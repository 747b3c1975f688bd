"""The Bayesian triplet loss."""

import math

import torch
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.functional.cdf import METHODS
from surefind.functional.distance import kl_to_prior
from surefind.functional.triplet import SPHERE_MOMENTS, Triplets, log_prob, moments, pack, spread_terms
from surefind.functional.vmf import SphereTerms
from surefind.losses.base import Scalars, TripletCriterion
from surefind.validation import check_choice, check_number

_CHUNK = {"clt": 1 << 18, "saddlepoint": 1 << 17, "exact": 1 << 10}  # triplets at once


class BayesianTripletLoss(TripletCriterion):
    r"""-log P(|a - p|^2 - |a - n|^2 < -margin), plus the divergence to the prior.

        loss = mean over triplets of  -log(P + floor) + kl_scale [KL(a) + KL(p) + KL(n)]

    A regularised likelihood (the paper calls it a lower bound, but the logarithm stands outside
    the expectation).

    Args:
        margin: Margin between squared distances.
        kl_scale: Weight of the divergences.
        method: How P is computed: "clt", "saddlepoint" or "exact".
        centred: Whether to use the bias-corrected mean, as in `triplet_moments`.
        floor: Added to P to bound the loss, 1e-8 in the paper's code; hard triplets then have no
            gradient.
        prior_var: Variance of the Gaussian prior; 1/D by default.
        sphere: Moments of von Mises-Fisher embeddings: "exact", or "gaussian" as in the paper.

    Raises:
        InvalidArgument: If an argument is not valid.
    """

    def __init__(
        self,
        margin: float = 0.0,
        kl_scale: float = 1e-6,
        method: str = "clt",
        centred: bool = False,
        *,
        floor: float = 0.0,
        prior_var: float | None = None,
        sphere: str = "exact",
    ) -> None:
        super().__init__()
        check_choice("method", method, METHODS)
        check_choice("sphere", sphere, SPHERE_MOMENTS)
        check_number("margin", margin)
        check_number("kl_scale", kl_scale, "0 or more", lambda x: 0 <= x < math.inf)
        check_number("floor", floor, "a probability below 1", lambda x: 0 <= x < 1)
        if prior_var is not None:
            check_number("prior_var", prior_var, "a positive number", lambda x: 0 < x < math.inf)
        self.margin, self.kl_scale, self.floor = margin, kl_scale, floor
        self.prior_var = prior_var
        self.method, self.centred, self.sphere = method, centred, sphere
        self.chunk = _CHUNK[method]

    def extra_repr(self) -> str:
        names = ("margin", "kl_scale", "method", "centred", "floor", "prior_var", "sphere")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def spread_parts(self, embeddings: Embeddings) -> tuple[Tensor, ...]:
        terms = spread_terms(embeddings, sphere=self.sphere)
        return tuple(terms) if isinstance(terms, SphereTerms) else (terms,)

    def cost(self, scalars: Scalars, dim: int) -> Tensor:
        triplets = _triplets(scalars, dim)
        result = log_prob(triplets, margin=self.margin, method=self.method, centred=self.centred)
        if self.floor:
            result = torch.logaddexp(result, result.new_tensor(math.log(self.floor)))
        return -result

    def std(self, scalars: Scalars, dim: int) -> Tensor:
        return moments(_triplets(scalars, dim)).var.sqrt()

    def kl(self, embeddings: Embeddings) -> Tensor:
        return kl_to_prior(embeddings, self.prior_var)


def _triplets(scalars: Scalars, dim: int) -> Triplets:
    spreads = [SphereTerms(*side) if len(side) > 1 else side[0] for side in scalars[3:]]
    return pack(scalars[:3], spreads, dim)
