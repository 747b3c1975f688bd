"""The triplet likelihood: P(tau < -margin) for tau = |a - p|^2 - |a - n|^2.

It depends only on three squared distances between means and three spreads. Functions take rows of
embeddings, or those scalars, precomputed for all triplets of a batch.
"""

from typing import NamedTuple

from torch import Tensor

from surefind.embeddings import Embeddings, VonMisesFisher, check_pair
from surefind.errors import InvalidArgument
from surefind.functional.cdf import check_method, log_cdf
from surefind.functional.normal import log_normal_cdf
from surefind.functional.quadratic_form import QuadraticForm
from surefind.functional.vmf import InnerProduct, Partner, SphereTerms, sphere_terms
from surefind.validation import check_choice, check_number

SPHERE_MOMENTS = ("exact", "gaussian")


class Moments(NamedTuple):
    """Mean and variance of tau = |a - p|^2 - |a - n|^2 for each triplet.

    Attributes:
        mean: E[tau], (T,).
        var: Var[tau], (T,).
    """

    mean: Tensor
    var: Tensor


class GaussianTriplets(NamedTuple):
    """Triplets of Gaussians as scalars that broadcast: squared distances of means, variances."""

    d_ap: Tensor
    d_an: Tensor
    d_pn: Tensor
    a: Tensor
    p: Tensor
    n: Tensor
    dim: int


class SphereTriplets(NamedTuple):
    """Triplets of von Mises-Fisher embeddings as scalars that broadcast."""

    d_ap: Tensor
    d_an: Tensor
    d_pn: Tensor
    a: SphereTerms
    p: SphereTerms
    n: SphereTerms
    dim: int


Triplets = GaussianTriplets | SphereTriplets


def triplet_moments(
    anchor: Embeddings, positive: Embeddings, negative: Embeddings, *, centred: bool = False, sphere: str = "exact"
) -> Moments:
    r"""Mean and variance of tau = |a - p|^2 - |a - n|^2, row by row.

    Gaussians (Warburg et al. 2021, supplement, regrouped so that no term is negative: the expanded
    polynomial loses all its digits in float32 once embeddings are sharp):

        E[tau]   = d_ap - d_an + D (v_p - v_n)
        Var[tau] = 2 D [v_p^2 + v_n^2 + 2 v_a (v_p + v_n)] + 4 [v_p d_ap + v_n d_an + v_a d_pn]

    von Mises-Fisher: tau = 2 a'(n - p), exact moments; `sphere="gaussian"` takes the Gaussian ones
    with variance 1/kappa instead, as the paper does.

    `centred` leaves out the term of the mean that rewards uncertain negatives, D (v_p - v_n); on
    the sphere, the part that changes sign when the spreads of p and n are swapped.

    Args:
        anchor: T embeddings, or one.
        positive: T embeddings, or one.
        negative: T embeddings, or one.
        centred: Whether to use the bias-corrected mean.
        sphere: Moments of von Mises-Fisher embeddings, "exact" or "gaussian".

    Returns:
        Mean and variance, (T,) each.
    """
    return moments(triplets_of(anchor, positive, negative, sphere=sphere), centred=centred)


def triplet_log_prob(
    anchor: Embeddings,
    positive: Embeddings,
    negative: Embeddings,
    margin: float = 0.0,
    method: str = "clt",
    *,
    centred: bool = False,
    sphere: str = "exact",
) -> Tensor:
    r"""log P(tau < -margin) with tau = |a - p|^2 - |a - n|^2, row by row.

    `centred` and `sphere` are as in `triplet_moments`.

    Args:
        anchor: T embeddings, or one.
        positive: T embeddings, or one.
        negative: T embeddings, or one.
        margin: Margin between the squared distances.
        method: "clt" takes tau as normal, as the paper does; "saddlepoint" is of second order, with
            an error of 2e-7 at D = 128; "exact" integrates, slowly, for Gaussian moments only.

    Returns:
        Log-probabilities, (T,).
    """
    triplets = triplets_of(anchor, positive, negative, sphere=sphere)
    return log_prob(triplets, margin=margin, method=method, centred=centred)


def nearer_probability(query: Embeddings, near: Embeddings, far: Embeddings, *, method: str = "saddlepoint") -> Tensor:
    """P(near is nearer to the query than far), row by row.

    Args:
        query: T embeddings, or one.
        near: T embeddings, or one.
        far: T embeddings, or one.
        method: As in `triplet_log_prob`.

    Returns:
        Probabilities, (T,).
    """
    return triplet_log_prob(query, near, far, method=method).exp()


def triplets_of(anchor: Embeddings, positive: Embeddings, negative: Embeddings, *, sphere: str = "exact") -> Triplets:
    """Reduce rows of embeddings to squared distances and spread terms."""
    check_pair(anchor, positive, "anchor, positive")
    check_pair(anchor, negative, "anchor, negative")
    sizes = {len(anchor), len(positive), len(negative)}
    if len(sizes - {1}) > 1:
        raise InvalidArgument(
            "anchor, positive, negative",
            expected="as many rows in each, or one",
            got=f"{len(anchor)}, {len(positive)} and {len(negative)}",
        )
    a, p, n = anchor.mean, positive.mean, negative.mean
    distances = tuple((x - y).square().sum(-1) for x, y in ((a, p), (a, n), (p, n)))
    spreads = [spread_terms(batch, sphere=sphere) for batch in (anchor, positive, negative)]
    return pack(distances, spreads, anchor.dim)


def spread_terms(batch: Embeddings, *, sphere: str = "exact") -> Tensor | SphereTerms:
    """Return the variance of each image, or its terms on the sphere."""
    check_choice("sphere", sphere, SPHERE_MOMENTS)
    if isinstance(batch, VonMisesFisher) and sphere == "exact":
        return sphere_terms(batch.kappa, batch.dim)
    return batch.var


def pack(distances: tuple[Tensor, ...], spreads: list[Tensor | SphereTerms], dim: int) -> Triplets:
    """Combine squared distances (ap, an, pn) and spread terms (a, p, n) that broadcast."""
    d_ap, d_an, d_pn = distances
    a, p, n = spreads
    if isinstance(a, SphereTerms):
        assert isinstance(p, SphereTerms) and isinstance(n, SphereTerms)
        return SphereTriplets(d_ap, d_an, d_pn, a, p, n, dim)
    assert isinstance(p, Tensor) and isinstance(n, Tensor)
    return GaussianTriplets(d_ap, d_an, d_pn, a, p, n, dim)


def moments(triplets: Triplets, *, centred: bool = False) -> Moments:
    """`triplet_moments` from precomputed scalars."""
    return Moments(_mean(triplets, centred=centred), _var(triplets))


def log_prob(triplets: Triplets, *, margin: float = 0.0, method: str = "clt", centred: bool = False) -> Tensor:
    """`triplet_log_prob` from precomputed scalars."""
    check_method(method, on_sphere=isinstance(triplets, SphereTriplets))
    check_number("margin", margin)
    gap = -margin - _mean(triplets, centred=centred)
    if method == "clt":
        return log_normal_cdf(gap, _var(triplets))
    return log_cdf(_form(triplets), gap, method)


def _mean(triplets: Triplets, *, centred: bool) -> Tensor:
    if isinstance(triplets, GaussianTriplets):
        d_ap, d_an, _, _, p, n, dim = triplets
        return d_ap - d_an if centred else (d_ap + dim * p) - (d_an + dim * n)
    if not centred:
        return 2 * _half_tau(triplets).mean
    # with the lengths of p and n each replaced by their average
    shrink = triplets.a.length * (triplets.p.length + triplets.n.length) / 2
    return shrink * (triplets.d_ap - triplets.d_an)


def _var(triplets: Triplets) -> Tensor:
    """Grouped so that few operations have the full shape when the arguments broadcast."""
    if isinstance(triplets, SphereTriplets):
        return 4 * _half_tau(triplets).var
    d_ap, d_an, d_pn, a, p, n, dim = triplets
    of_pair = p * (2 * dim * (p + 2 * a) + 4 * d_ap)
    return of_pair + (2 * dim * n * n + 4 * (n * (d_an + dim * a) + a * d_pn))


def _form(triplets: Triplets) -> QuadraticForm:
    r"""The law of tau.

    Gaussians: K(t) = (t (d_ap - d_an) + 2 t^2 (v_n d_ap + v_p d_an + v_a d_pn)) / q - (D/2) log q
    with q = 1 - 2 t (v_p - v_n) - 4 t^2 (v_a v_p + v_a v_n + v_p v_n).
    """
    if isinstance(triplets, SphereTriplets):
        return _half_tau(triplets).form(scale=2)
    d_ap, d_an, d_pn, a, p, n, dim = triplets
    noise = n * d_ap + p * d_an + a * d_pn
    return QuadraticForm(d_ap - d_an, noise, p - n, a * (p + n) + p * n, dim)


def _half_tau(triplets: SphereTriplets) -> InnerProduct:
    """a'(n - p), which is tau / 2."""
    d_ap, d_an, d_pn, a, p, n, dim = triplets
    along = n.length * (1 - d_an / 2) - p.length * (1 - d_ap / 2)
    norm = (n.length - p.length) ** 2 + n.length * p.length * d_pn
    cos_pn = 1 - d_pn / 2
    partners = [Partner(1, n, d_an, n.length - p.length * cos_pn), Partner(-1, p, d_ap, n.length * cos_pn - p.length)]
    return InnerProduct(a, partners, norm, along, dim)
