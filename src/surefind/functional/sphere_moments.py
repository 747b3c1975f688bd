"""The first three cumulants of inner products on the sphere, from cosines alone."""

from typing import NamedTuple

import torch
from torch import Tensor

from surefind.functional.autograd import widen
from surefind.functional.quadratic import QuadraticForm
from surefind.functional.sphere import SphereTerms

_SLIVER = 0.01


class Partner(NamedTuple):
    """One of the distributions that the anchor is multiplied with."""

    sign: int
    terms: SphereTerms
    distance: Tensor  # squared, between the mean directions: 2 - 2 cos
    along_sum: Tensor  # its mean direction times the mean of the whole sum

    @property
    def cos(self) -> Tensor:
        return 1 - self.distance / 2


class InnerProduct(NamedTuple):
    r"""a'w with w a sum of signed partners x, all of them independent and von Mises-Fisher.

    In the formulas m = E[w], m_a = E[a], S are covariances and T third central moments:

        S = A' mu mu' + across (I - mu mu'),     T = dS / d(kappa mu)
    """

    anchor: SphereTerms
    partners: list[Partner]
    norm: Tensor  # |m|^2
    along: Tensor  # g, the anchor's mean direction times m
    dim: int

    @property
    def mean(self) -> Tensor:
        """A_a g"""
        return self.anchor.length * self.along

    @property
    def var(self) -> Tensor:
        """m'S_a m + sum_x [m_a'S_x m_a + tr(S_a S_x)], in which no term is negative."""
        a, g2 = self.anchor, self.along * self.along
        total = a.across * (self.norm - g2).clamp(min=0) + a.along * g2
        for partner in self.partners:
            x, c2 = partner.terms, partner.cos.square()
            s2 = (partner.distance * (1 - partner.distance / 4)).clamp(min=0)
            total = (
                total
                + s2 * (a.length**2 * x.across + a.across * x.along + a.along * x.across)
                + c2 * x.along * (a.length**2 + a.along)
                + a.across * x.across * (self.dim - 2 + c2)
            )
        return total

    @property
    def third(self) -> Tensor:
        r"""T_a[m,m,m] + 6 m_a'S_w S_a m + 3 T_a[m, S_w]
        + sum_x sign (T_x[m_a,m_a,m_a] + 3 T_x[m_a, S_a] + T_a : T_x)
        """
        a, g, dim = self.anchor, self.along, self.dim
        gap_a, twist_a, trace_a = _deviation(a, dim)
        total = g * (3 * a.lean * self.norm + twist_a * g * g)
        for partner in self.partners:
            x, c = partner.terms, partner.cos
            gap_x, twist_x, trace_x = _deviation(x, dim)
            seen = x.across * g + gap_x * partner.along_sum * c
            square = x.across + gap_x * c * c
            of_partner = (
                a.length**3 * (3 * x.lean + twist_x * c * c)
                + 3 * a.length * x.lean * (2 * a.along + trace_a)
                + 3 * a.length * twist_x * (a.across + gap_a * c * c)
                + 3 * ((dim + 2) * a.lean * x.lean + a.lean * twist_x + twist_a * x.lean)
                + twist_a * twist_x * c * c
            )
            total = (
                total
                + partner.sign * c * of_partner
                + 6 * a.length * (a.across * seen + gap_a * g * square)
                + 3 * (a.lean * (2 * seen + g * trace_x) + twist_a * g * square)
            )
        return total

    def form(self, *, scale: int) -> QuadraticForm:
        r"""A quadratic form with the variance and the third cumulant of scale * a'w.

            var = 4 noise + 4 D spread + 2 D tilt^2,   third = 6 tilt var - 4 D tilt^3   (shift = 0)

        The second is sin(3 h) = 3 sin(h) - 4 sin(h)^3 for tilt = sqrt(2 var / D) sin(h), the third
        cumulant in units of that of a chi-square. What variance is left goes to the noise, but for
        a sliver: spread would add the excess kurtosis of unbounded space, and a sphere has none.
        """
        wide = self._double()  # a third cumulant is below what float32 can hold
        var = scale**2 * wide.var
        largest = (2 * var / self.dim).sqrt()
        relative = scale**3 * wide.third / (2 * var * largest)
        tilt = largest * torch.sin(torch.asin(relative.clamp(-0.99, 0.99)) / 3)
        rest = var / 4 - 0.5 * self.dim * tilt * tilt
        spread = _SLIVER / self.dim * rest
        return QuadraticForm(var.new_zeros(()), (1 - _SLIVER) * rest, tilt, spread, self.dim)

    def _double(self) -> "InnerProduct":
        partners = [
            Partner(x.sign, x.terms.map(widen), widen(x.distance), widen(x.along_sum))
            for x in self.partners
        ]
        anchor = self.anchor.map(widen)
        return InnerProduct(anchor, partners, widen(self.norm), widen(self.along), self.dim)


def _deviation(x: SphereTerms, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """S = across I + gap mu mu';  T = lean sym(I mu) + twist mu mu mu;  the trace of S."""
    return x.along - x.across, x.bend - 3 * x.lean, (dim - 1) * x.across + x.along
