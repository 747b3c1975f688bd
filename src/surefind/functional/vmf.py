"""The von Mises-Fisher distribution: its moments and its divergence, exact for every kappa and D.

All of it comes from the ratio of Bessel functions r_k = I_{k+1}(kappa) / I_k(kappa) and the
derivatives of that ratio, never from the Bessel functions themselves: those under- and overflow.
"""

from collections.abc import Callable
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.polynomial import Polynomial
from torch import Tensor
from torch.autograd.function import once_differentiable

from surefind.functional._autograd import widen
from surefind.functional.quadratic_form import QuadraticForm

_DEBYE_TERMS = 7
_DEBYE_ORDER = 50.0  # from which on that many terms give 14 digits


class SphereTerms(NamedTuple):
    """What moments on the sphere are made of, one value per image; A is r_k for k = D/2 - 1."""

    length: Tensor  # A, of the mean vector: 1 for a point, 0 for the uniform distribution
    along: Tensor  # A', the variance in the direction of the mean
    across: Tensor  # A/kappa, the variance in each direction across it
    bend: Tensor  # A'', the third central moment along the mean
    lean: Tensor  # (A/kappa)', how the variance across changes along the mean

    def map(self, change: Callable[[Tensor], Tensor]) -> "SphereTerms":
        return SphereTerms(*(change(tensor) for tensor in self))


def sphere_terms(kappa: Tensor, dim: int) -> SphereTerms:
    r"""The derivatives of log I for vMF(mean, kappa) in D dimensions.

    E[x] = A mean,   Cov[x] = A' along the mean and A/kappa across it,   A = I_{D/2} / I_{D/2-1}
    """
    length, along, bend, _ = _bessel(kappa, dim)
    across = length / kappa
    return SphereTerms(length, along, across, bend, (along - across) / kappa)


def kl_to_uniform(kappa: Tensor, dim: int) -> Tensor:
    r"""KL(vMF(mean, kappa) || uniform) = kappa A - log 0F1(; D/2; kappa^2 / 4)."""
    return _bessel(kappa, dim)[3]


def _bessel(kappa: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A, A', A'' and the divergence."""
    result: tuple[Tensor, Tensor, Tensor, Tensor] = _Bessel.apply(  # type: ignore[no-untyped-call]
        kappa, dim
    )
    return result


class _Bessel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kappa: Tensor, dim: int) -> tuple[Tensor, ...]:
        x = kappa.double()
        *ratio, divergence = _ratio_and_divergence(x, dim)
        ctx.save_for_backward(x, *ratio[1:])
        return tuple(value.to(kappa.dtype) for value in (*ratio[:3], divergence))

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, by_length: Tensor, by_along: Tensor, by_bend: Tensor, by_divergence: Tensor
    ) -> tuple[Tensor, None]:
        kappa, first, second, third = ctx.saved_tensors
        slope = by_length * first + by_along * second + by_bend * third
        return (slope + by_divergence * kappa * first).to(by_length.dtype), None


def _ratio_and_divergence(x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    r"""r, r', r'', r''' and the divergence: Debye's expansion at a high order, then down.

        r_k = 1 / (h + r_{k+1}),   h = 2 (k + 1) / kappa
        KL_k = KL_{k+1} + r_k (kappa r'_{k+1} + r_{k+1}) - log(1 + r_{k+1} / h)

    Going down is stable and only adds what has the same sign, so relative accuracy is kept where
    kappa A - log I_k would have lost every digit.
    """
    order = dim / 2 - 1
    start = order + max(1, ceil(_DEBYE_ORDER - order))
    r, r1, r2, r3, divergence = _debye(x, start)
    for k in np.arange(start - 1, order - 0.5, -1.0).tolist():
        h = 2 * (k + 1) / x
        a, ratio = h / x, 1 / (h + r)
        divergence = divergence + ratio * (x * r1 + r) - torch.log1p(r / h)
        # the derivatives of 1 / (h + r), with 1 - ratio h replaced by ratio r, which is exact
        b = ratio * r / x
        third = ratio**2 * (
            6 * a * (b * b + ratio * (r1 * (3 * b - 1 / x) + 3 * ratio * r1**2 - r2))
            - 6 * ratio * r1 * (ratio * r1**2 - r2)
            - r3
        )
        second = 2 * ratio**3 * (r1**2 - a * (r / x + 2 * r1)) - ratio**2 * r2
        r, r1, r2, r3 = ratio, ratio**2 * (a - r1), second, third
    return r, r1, r2, r3, divergence


def _debye(x: Tensor, order: float) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    r"""The same at a high order N, from log I_N(N z) with w = sqrt(1 + z^2) and p = 1/w:

    log I_N = N (w + log(z / (1 + w))) - log(2 pi N w) / 2 + G(p)
    r = z (1/(1+w) - Y(p)/N),   Y = p^2/2 + p^3 G'
    r' = R/N,   R = p^2/(1+p) + (p (1-p^2) Y' - Y)/N
    KL = N log(1 + (w-1)/2) + log(w)/2 - (w^2-1) Y + G(1) - G(p)
    """
    slope_to_one, y, rest = _debye_polynomials(order)
    z = x / order
    w = torch.sqrt(1 + z * z)
    p, above_one = 1 / w, z * z / (1 + w)  # the latter is w - 1
    r = z * (1 / (1 + w) - _at(y, p) / order)
    slope = p * p / (1 + p) + _at(rest, p)
    d1 = p * (2 + p) / (1 + p) ** 2 + _at(rest.deriv(), p)
    d2 = 2 / (1 + p) ** 3 + _at(rest.deriv(2), p)
    divergence = (
        order * torch.log1p(above_one / 2)
        + torch.log1p(above_one) / 2
        - above_one * (1 + w) * _at(y, p)
        + above_one * p * _at(slope_to_one, p)
    )
    third = p**3 * ((1 - p * p) * (3 * d1 + p * d2) - d1)
    return r, slope / order, -z * p**3 * d1 / order**2, third / order**3, divergence


@lru_cache(maxsize=64)
def _debye_polynomials(order: float) -> tuple[Polynomial, Polynomial, Polynomial]:
    r"""(G(1) - G(p)) / (1 - p), Y and the polynomial part of R, for one order N.

    u_{k+1} = p^2 (1 - p^2) u_k' / 2 + int_0^p (1 - 5 v^2) u_k(v) dv / 8
    G = log sum_k u_k / N^k
    """
    p = Polynomial([0.0, 1.0])
    u = [Polynomial([1.0])]
    g = [Polynomial([0.0])]
    for k in range(1, _DEBYE_TERMS + 1):
        last = u[-1]
        u.append(p**2 * (1 - p**2) * last.deriv() / 2 + ((1 - 5 * p**2) * last).integ() / 8)
        g.append(u[k] - sum((j / k * g[j] * u[k - j] for j in range(1, k)), Polynomial([0.0])))
    series = sum((g[k] / order**k for k in range(1, len(g))), Polynomial([0.0]))
    y = p**2 / 2 + p**3 * series.deriv()
    return ((series - series(1.0)) // (p - 1), y, (p * (1 - p**2) * y.deriv() - y) / order)


def _at(polynomial: Polynomial, p: Tensor) -> Tensor:
    total = torch.zeros_like(p)
    for coefficient in reversed(polynomial.coef.tolist()):
        total = total * p + coefficient
    return total


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
        partners = [Partner(x.sign, x.terms.map(widen), widen(x.distance), widen(x.along_sum)) for x in self.partners]
        anchor = self.anchor.map(widen)
        return InnerProduct(anchor, partners, widen(self.norm), widen(self.along), self.dim)


def _deviation(x: SphereTerms, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """S = across I + gap mu mu';  T = lean sym(I mu) + twist mu mu mu;  the trace of S."""
    return x.along - x.across, x.bend - 3 * x.lean, (dim - 1) * x.across + x.along


def inner_product(kappa: Tensor, other: Tensor, between: Tensor, dim: int) -> InnerProduct:
    """q'x of independent q and x with these concentrations, whose means are `between` apart."""
    q, x = sphere_terms(kappa, dim), sphere_terms(other, dim)
    partner = Partner(1, x, between, x.length)
    along = x.length * (1 - between / 2)
    return InnerProduct(q, [partner], x.length**2, along, dim)
