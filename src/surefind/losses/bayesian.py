"""The Bayesian triplet loss."""

import math

import torch
from torch import Tensor

from surefind.embeddings import Embeddings, VonMisesFisher
from surefind.functional._autograd import LARGEST_SLOPE, with_slopes
from surefind.functional.cdf import METHODS
from surefind.functional.distance import kl_to_prior
from surefind.functional.normal import log_cdf_and_slope, normal_cdf_with_slopes
from surefind.functional.triplet import SPHERE_MOMENTS, Triplets, log_prob, moments, pack, spread_terms
from surefind.functional.vmf import SphereTerms
from surefind.losses.base import AllTriplets, Scalars, Selection, TripletCriterion
from surefind.validation import check_choice, check_number

_CHUNK = {"clt": 1 << 16, "saddlepoint": 1 << 16, "exact": 1 << 10}  # triplets at once
_NEVER = 1e20  # a squared distance at which an image of the same label is no negative: P = 1, without slope


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

    def _closed(self, embeddings: Embeddings) -> bool:
        """Whether the slopes are taken in closed form: of Gaussians, by the normal distribution."""
        on_sphere = isinstance(embeddings, VonMisesFisher) and self.sphere == "exact"
        return self.method == "clt" and not self.floor and not on_sphere

    def sum_of_few(self, embeddings: Embeddings, distances: Tensor, sides: Tensor) -> Tensor:
        if not self._closed(embeddings):
            return super().sum_of_few(embeddings, distances, sides)
        dim = embeddings.dim

        def compute(distances: Tensor, var: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            spreads = var.index_select(0, sides.view(-1)).view(sides.shape)
            of_a, of_ends, to_ends, d_pn = spreads[0], spreads[1:], distances[:2], distances[2]
            reach = to_ends + dim * (of_a + of_ends)
            noise = (of_ends * (reach - 0.5 * dim * of_ends)).sum(0).addcmul_(of_a, d_pn)
            expected = to_ends if self.centred else to_ends + dim * of_ends
            value, slopes = normal_cdf_with_slopes(expected[1] - expected[0] - self.margin, 4 * noise)
            by_mean, by_noise = torch.stack([slopes[0], -slopes[0]]), -4 * slopes[1]
            by_ends = by_noise * reach
            if not self.centred:
                by_ends.add_(by_mean, alpha=dim)
            by_spreads = torch.cat([by_noise * (d_pn + dim * of_ends.sum(0)), by_ends.view(-1)])
            by_distances = torch.cat([by_mean.addcmul_(by_noise, of_ends), (by_noise * of_a)[None]])
            return -value.sum(), (by_distances, torch.zeros_like(var).index_add_(0, sides.view(-1), by_spreads))

        return with_slopes(compute, distances, *self.spread_parts(embeddings))

    def sum_of_costs(self, embeddings: Embeddings, distances: Tensor, selection: Selection) -> Tensor:
        r"""Sum over all triplets of Gaussians by the normal distribution with slopes in closed form.

        E[tau] = E_ap - E_an,    E_ax = d_ax + D v_x
        Var[tau] = W_ap + W_an + 4 v_a d_pn,    W_ax = 4 v_x (d_ax + D (v_a + v_x / 2))
        """
        if not self._closed(embeddings) or not isinstance(selection, AllTriplets):
            return super().sum_of_costs(embeddings, distances, selection)
        dim, same = embeddings.dim, selection.same

        def compute(between: Tensor, var: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            mean = between if self.centred else between + dim * var
            noise = (between + dim * (var[:, None] + var / 2)).mul_(4 * var)
            to_negatives = mean.masked_fill(same, _NEVER)
            by_mean, by_noise, by_between = between.new_zeros(3, *between.shape)
            by_var, total = torch.zeros_like(var), torch.zeros((), dtype=torch.float64, device=var.device)
            for a, p in zip(*(side.split(self.chunk // len(same) + 1) for side in selection.pairs), strict=True):
                own, of_a = a * len(var) + p, 4 * var.index_select(0, a)[:, None]
                d_pn = between.index_select(0, p)
                inverse_std = noise.index_select(0, a).add_(noise.view(-1)[own, None]).addcmul_(d_pn, of_a).rsqrt_()
                z = to_negatives.index_select(0, a).sub_(mean.view(-1)[own, None] + self.margin).mul_(inverse_std)
                value, by_gap = log_cdf_and_slope(z)
                total -= value.sum()
                by_gap.mul_(inverse_std).clamp_(max=LARGEST_SLOPE)
                half = z.mul_(inverse_std.mul_(by_gap)).mul_(0.5).clamp_(-LARGEST_SLOPE, LARGEST_SLOPE)
                by_mean.index_add_(0, a, by_gap, alpha=-1).view(-1).index_add_(0, own, by_gap.sum(1))
                by_noise.index_add_(0, a, half).view(-1).index_add_(0, own, half.sum(1))
                by_var.index_add_(0, a, d_pn.mul_(half).sum(1), alpha=4)
                by_between.index_add_(0, p, half.mul_(of_a))
            by_between.add_(by_mean).addcmul_(by_noise, var, value=4)
            by_var.add_((by_noise * var).sum(1), alpha=4 * dim)
            by_var.add_(by_noise.mul_(between + dim * (var[:, None] + var)).sum(0), alpha=4)
            if not self.centred:
                by_var.add_(by_mean.sum(0), alpha=dim)
            return total, (by_between, by_var)

        return with_slopes(compute, distances, *self.spread_parts(embeddings))

    def std(self, scalars: Scalars, dim: int) -> Tensor:
        return moments(_triplets(scalars, dim)).var.sqrt()

    def kl(self, embeddings: Embeddings) -> Tensor:
        return kl_to_prior(embeddings, self.prior_var)


def _triplets(scalars: Scalars, dim: int) -> Triplets:
    spreads = [SphereTerms(*side) if len(side) > 1 else side[0] for side in scalars[3:]]
    return pack(scalars[:3], spreads, dim)
