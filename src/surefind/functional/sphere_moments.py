"""The first three cumulants of inner products on the sphere, from cosines alone."""

from typing import NamedTuple

import torch
from torch import Tensor

from surefind.functional.quadratic import QuadraticForm
from surefind.functional.sphere import SphereTerms

_SLIVER = 0.01


class Partner(NamedTuple):
    """One of the distributions that the anchor is multiplied with."""

    sign: int
    terms: SphereTerms
    distance: Tensor  # squared, between the mean directions: 2 - 2 cos
    along_sum: Tensor  # its mean direction times the mean of the whole sum


class Cumulants(NamedTuple):
    """The mean, the variance and the third cumulant of a'w."""

    mean: Tensor
    var: Tensor
    third: Tensor

    def form(self, *, scale: int, dim: int) -> QuadraticForm:
        r"""A quadratic form with the variance and the third cumulant of scale * a'w.

        With shift = 0 it has  var = 4 noise + 4 D spread + 2 D tilt^2,  third = 6 tilt var - 4 D tilt^3,
        which is sin(3 h) = 3 sin(h) - 4 sin(h)^3 for tilt = sqrt(2 var / D) sin(h) and the third
        cumulant in units of that of a chi-square. What variance is left goes to the noise, but for
        a sliver: excess kurtosis would be that of unbounded space, and on a sphere it is not.
        """
        var = scale**2 * self.var
        largest = (2 * var / dim).sqrt()
        relative = scale**3 * self.third / (2 * var * largest)
        tilt = largest * torch.sin(torch.asin(relative.clamp(-0.99, 0.99)) / 3)
        rest = var / 4 - 0.5 * dim * tilt * tilt
        spread = _SLIVER / dim * rest
        return QuadraticForm(var.new_zeros(()), (1 - _SLIVER) * rest, tilt, spread, dim)


def inner_product_cumulants(
    anchor: SphereTerms, partners: list[Partner], norm: Tensor, along: Tensor, dim: int
) -> Cumulants:
    r"""Cumulants of a'w, w = sum of signed partners x, all independent; m = E[w], g = mu_a'm.

        mean    = A_a g
        var     = m'S_a m + sum_x [m_a'S_x m_a + tr(S_a S_x)]            (S covariances)
        third   = T_a[m,m,m] + 6 m_a'S_w S_a m + 3 T_a[m, S_w]
                  + sum_x sign (T_x[m_a,m_a,m_a] + 3 T_x[m_a, S_a] + T_a : T_x)

    S = A' mu mu' + across (I - mu mu'), and T, the third central moment, is the derivative of S
    by kappa mu. No term of the variance is negative. `norm` is |m|^2 and `along` is g.
    """
    a, g = anchor, along
    gap_a, twist_a, trace_a = _deviation(a, dim)
    across_anchor = (norm - g * g).clamp(min=0)
    var = a.across * across_anchor + a.along * g * g
    third = g * (3 * a.lean * norm + twist_a * g * g)
    for sign, x, distance, along_sum in partners:
        c = 1 - distance / 2
        c2, s2 = c * c, (distance * (1 - distance / 4)).clamp(min=0)
        gap_x, twist_x, trace_x = _deviation(x, dim)
        var = (
            var
            + a.length**2 * (x.across * s2 + x.along * c2)
            + a.across * x.across * (dim - 2 + c2)
            + (a.across * x.along + a.along * x.across) * s2
            + a.along * x.along * c2
        )
        seen = x.across * g + gap_x * along_sum * c
        of_partner = (
            a.length**3 * (3 * x.lean + twist_x * c2)
            + 3 * a.length * (x.lean * (2 * a.along + trace_a) + twist_x * (a.across + gap_a * c2))
            + 3 * ((dim + 2) * a.lean * x.lean + a.lean * twist_x + twist_a * x.lean)
            + twist_a * twist_x * c2
        )
        third = (
            third
            + sign * c * of_partner
            + 6 * a.length * (a.across * seen + gap_a * g * (x.across + gap_x * c2))
            + 3 * (a.lean * (2 * seen + g * trace_x) + twist_a * g * (x.across + gap_x * c2))
        )
    return Cumulants(a.length * g, var, third)


def _deviation(x: SphereTerms, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """S = across I + gap mu mu';  T = lean sym(I mu) + twist mu mu mu;  the trace of S."""
    return x.along - x.across, x.bend - 3 * x.lean, (dim - 1) * x.across + x.along
