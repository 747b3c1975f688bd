"""Probabilities of a quadratic form by the second-order saddlepoint approximation.

Letters: K the cumulant generating function, t the saddlepoint, K1 ... K5 its derivatives at t.
For each chi-square of signed weight w and non-centrality c:  p = 1/(1 - 2 w t),  s = p - 1,
b = 2 w p. Here s and p keep all digits both at t = 0 and next to the poles.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from surefind.functional._autograd import LARGEST_SLOPE, with_slopes
from surefind.functional.normal import log_cdf_and_slope, share_below
from surefind.functional.quadratic_form import ChiSquares, QuadraticForm, chi_squares

# Standard deviations within which the terms 1/r - 1/u lose too many digits.
_NEAR = {torch.float32: 0.5, torch.float64: 0.2}
_SMALL = 1e-3
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-4}  # of the last step; what is left is about its square
_MOST_STEPS = 60


class Term(NamedTuple):
    """One chi-square at the saddlepoint; its weight is signed."""

    weight: Tensor
    shift: Tensor
    s: Tensor
    p: Tensor
    t: Tensor


def log_cdf_saddlepoint(form: QuadraticForm, gap: Tensor) -> Tensor:
    r"""log P(variable < mean + gap), by Lugannani and Rice with Daniels' next term.

        P = Phi(r) - phi(r) (c0 + c1),   r = sign(t) sqrt(2 (t x - K)),   u = t sqrt(K2)
        c0 = 1/u - 1/r,   c1 = (k4/8 - 5 k3^2/24)/u - k3/(2 u^2) - 1/u^3 + 1/r^3

    with K1(t) = x the saddlepoint and k3, k4 the standardised cumulants there. The smaller tail is
    taken in the log domain. In float32 rounding adds about 2e-6 to the error of P; next to the mean
    and where float32 overflows it is computed in float64. The gradient is that of this expression.
    """
    flat, shape = form.flat_with(gap, wide=False)

    def compute(*tensors: Tensor) -> tuple[Tensor, list[Tensor]]:
        value, slopes = _evaluate(tensors, form.dof)
        if value.dtype == torch.float32 and not finite(value, *slopes):
            value, slopes = _evaluate([tensor.double() for tensor in tensors], form.dof)
            slopes = [slope.clamp_(-LARGEST_SLOPE, LARGEST_SLOPE).float() for slope in slopes]
        return value.to(tensors[0].dtype), slopes

    return with_slopes(compute, *flat).reshape(shape).to(gap.dtype)


def _evaluate(tensors: Sequence[Tensor], dof: int) -> tuple[Tensor, list[Tensor]]:
    """The value and its slopes by each of the tensors."""
    form, gap = QuadraticForm.of(tensors[:-1], dof), tensors[-1]
    law = chi_squares(form)
    scale = 1 / (law.up if law.down is None else law.up + law.down)  # P does not depend on it
    scaled = law._replace(up=law.up * scale, down=None if law.down is None else law.down * scale)
    terms = terms_at_saddlepoint(scaled, gap * scale)
    r = _root_of_twice_the_exponent(terms, dof)
    value, by_law, by_gap = _value_and_slopes(terms, gap, r, dof)
    by_law = [(by_weight * scale, by_shift) for by_weight, by_shift in by_law]
    slopes = [*_slopes_by_form(form, law, by_law), by_gap.mul_(scale)]
    if r.numel() > 0 and float(r.min()) < _NEAR[r.dtype]:
        near = torch.nonzero(r < _NEAR[r.dtype]).squeeze(1)
        near_value, near_slopes = log_cdf_near_the_mean(
            dof,
            [tensor.index_select(0, near).double() for tensor in tensors],
            (terms[0].t * scale).index_select(0, near).double(),
        )
        value.index_copy_(0, near, near_value.to(value.dtype))
        for slope, near_slope in zip(slopes, near_slopes, strict=True):
            slope.index_copy_(0, near, near_slope.to(slope.dtype))
    return value, slopes


def _root_of_twice_the_exponent(terms: list[Term], dof: int) -> Tensor:
    """|r| = sqrt(2 (t x - K)) = sqrt(sum of c s^2 + D (s - log(1 + s)))"""
    total = torch.zeros_like(terms[0].s, dtype=torch.float64)
    for term in terms:
        s = term.s.double()
        logs = torch.log1p(s)
        if s.numel() > 0 and float(term.p.min()) < _SMALL:  # s = -1 has lost what p still has
            logs = torch.where(term.p < _SMALL, term.p.double().log(), logs)
        total.add_(s - logs, alpha=dof)
        total.addcmul_(term.shift * s, s)
    return total.clamp_(min=0).sqrt_().to(terms[0].s.dtype)


def _value_and_slopes(
    terms: list[Term], gap: Tensor, r: Tensor, dof: int
) -> tuple[Tensor, list[tuple[Tensor, Tensor]], Tensor]:
    r"""log P and its slopes by each chi-square's (weight, non-centrality) and by the gap.

    The tail on the side of the gap is Q = phi(r) (M(r) + c), M Mills' ratio, r and u > 0:

        d log Q = [(c_r - 1 - r c) dr + c_u du + c_3 dk3 + c_4 dk4] / (M + c)
        r dr = t dx - dK,   dt = (dx - dK1) / K2,   dKj = (dKj at fixed t) + K(j+1) dt
    """
    parts = [_Part.of(term, dof) for term in terms]
    k2, k3, k4, k5 = (k[0] + k[1] if len(k) == 2 else k[0] for k in zip(*(part.k for part in parts), strict=True))
    t, below = terms[0].t, share_below(gap)
    side = (-2 * below).add_(1)
    inv_k2 = k2.reciprocal()
    inv_std = inv_k2.sqrt()
    nearest = _NEAR[r.dtype]
    inv_r = r.clamp(min=nearest).reciprocal_()
    inv_u = (inv_std / t.abs()).clamp_(max=2 / nearest)
    side_per_cube = (inv_k2 * inv_std).mul_(side)
    skew, excess = k3 * side_per_cube, (k4 * inv_k2).mul_(inv_k2)
    inv_r2, inv_u2 = inv_r * inv_r, inv_u * inv_u
    bend = torch.addcmul(excess.mul_(0.125).add_(1), skew, skew, value=-5 / 24)
    c = torch.addcmul(inv_r, inv_r, inv_r2, value=-1).neg_().addcmul_(inv_u, bend)
    c.addcmul_(inv_u2, torch.add(inv_u, skew, alpha=0.5), value=-1)
    log_q, slope = log_cdf_and_slope(-r)
    rest = (c * slope).add_(1).clamp_(min=torch.finfo(r.dtype).tiny)
    log_q.add_(rest.log())
    tail = log_q.mul(1 / math.log(2)).exp2_().mul_(1 - below)  # where the gap is negative, the tail is the answer
    value = torch.log1p(-tail).addcmul_(log_q, below)
    # the slope of the value by log Q is 1 below the mean and -Q / (1 - Q) above it
    scale = tail.div_(tail - 1).add_(below).mul_(slope).div_(rest)
    by_r = inv_r2.mul(-3).add_(1).mul_(inv_r2).sub_(1).addcmul_(r, c, value=-1).mul_(inv_r)
    by_r.mul_(scale)
    scale.mul_(inv_u)
    by_u = torch.add(skew, inv_u, alpha=3).mul_(inv_u).sub_(bend).mul_(inv_u).mul_(side).mul_(scale)
    by_k3 = skew.mul_(-5 / 12).sub_(inv_u, alpha=0.5).mul_(scale).mul_(side_per_cube)
    by_k4 = scale.mul_(inv_k2).mul_(inv_k2).mul_(0.125)
    by_k2 = (k3 * by_k3).mul_(-1.5).addcmul_(k4, by_k4, value=-2).mul_(inv_k2)
    by_k2.addcmul_(by_u * t, inv_std, value=0.5)
    by_x = (k3 * by_k2).addcmul_(k4, by_k3).addcmul_(k5, by_k4).addcdiv_(by_u, inv_std)
    by_x.mul_(inv_k2)
    t_by_x = t * by_x
    of_weight = ((2 * by_k2).sub_(t_by_x), (3 * by_k3).addcmul_(t, by_k2), (4 * by_k4).addcmul_(t, by_k3), t * by_k4)
    by_gap = by_r * t
    by_gap.add_(by_x)
    by_law = [part.slopes(by_gap, by_r, by_x, by_k2, by_k3, by_k4, of_weight) for part in parts]
    return value, by_law, by_gap


class _Part(NamedTuple):
    """One chi-square's part of K2 ... K5:  Kj = (j-1)!/2 b^j (D + j c p)."""

    term: Term
    dof: int
    b: Tensor
    k: tuple[Tensor, Tensor, Tensor, Tensor]

    @classmethod
    def of(cls, term: Term, dof: int) -> "_Part":
        b = (2 * term.weight).mul_(term.p)
        noncentral = term.p * term.shift
        power = b * b
        k2 = (noncentral + dof / 2).mul_(power)
        power.mul_(b)
        k3 = (3 * noncentral).add_(dof).mul_(power)
        power.mul_(b)
        k4 = (12 * noncentral).add_(3 * dof).mul_(power)
        power.mul_(b)
        return cls(term, dof, b, (k2, k3, k4, noncentral.mul_(60).add_(12 * dof).mul_(power)))

    def slopes(
        self,
        by_gap: Tensor,
        by_r: Tensor,
        by_x: Tensor,
        by_k2: Tensor,
        by_k3: Tensor,
        by_k4: Tensor,
        of_weight: tuple[Tensor, ...],
    ) -> tuple[Tensor, Tensor]:
        """By the weight and by the non-centrality.

        At fixed t, w d/dw of Kj is j Kj + t K(j+1); of K and K1 the values at t = 0 are taken off.
        """
        w, shift, s, p, _ = self.term
        by_weight = self.k[0] * of_weight[0]
        for k, factor in zip(self.k[1:], of_weight[1:], strict=True):
            by_weight.addcmul_(k, factor)
        by_weight.div_(w)
        two_plus_s = 2 + s
        s_by_x = s * by_gap
        by_weight.addcmul_(s_by_x, (two_plus_s * shift).add_(self.dof), value=-1)
        b = self.b
        by_shift = (12 * b).mul_(by_k4).add_(by_k3, alpha=3).mul_(b).add_(by_k2)
        by_shift.mul_(b).mul_(b).mul_(p)
        rest = (by_r * s).div_(p).mul_(0.5)
        rest.addcmul_(two_plus_s.mul_(w), by_x)
        return by_weight, by_shift.addcmul_(s, rest, value=-1)


def _slopes_by_form(form: QuadraticForm, law: ChiSquares, by_law: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """The chain rule through `chi_squares`."""
    (by_up, by_up_shift), *rest = by_law
    if form.spread is None or law.down is None or law.down_shift is None:
        by_shift = by_up_shift / law.up
        return [by_shift, torch.zeros_like(by_shift), by_up - by_shift * law.up_shift]
    ((by_down, by_down_shift),) = rest
    inv_root = (law.up + law.down).reciprocal_()
    of_up, of_down = by_up_shift * inv_root, by_down_shift * inv_root
    by_shift = of_up - of_down
    by_root = (of_up * law.up_shift).addcmul_(of_down, law.down_shift)
    of_up /= law.up
    of_down /= law.down
    by_noise = of_up + of_down
    by_up = torch.addcmul(by_up, of_up / law.up, form.noise, value=-1)
    by_down = torch.addcmul(-by_down, of_down / law.down, form.noise, value=-1)
    by_tilt = (by_up * law.up - by_down * law.down - by_root * form.tilt).mul_(inv_root)
    by_spread = (by_up + by_down - 2 * by_root).mul_(inv_root)
    return [by_shift, by_noise, by_tilt, by_spread]


def terms_at_saddlepoint(law: ChiSquares, gap: Tensor) -> list[Term]:
    if law.down is None or law.down_shift is None:
        s = _root(law.up_shift, 2 * law.up_shift + law.dof, gap / law.up)
        p = 1 + s
        return [Term(law.up, law.up_shift, s, p, s / (2 * law.up * p))]
    up, down = _solve(law.up, law.up_shift, law.down, law.down_shift, gap, law.dof)
    t = up[0] / (2 * law.up * up[1])
    return [Term(law.up, law.up_shift, *up, t), Term(-law.down, law.down_shift, *down, t)]


def _solve(
    up: Tensor, up_shift: Tensor, down: Tensor, down_shift: Tensor, gap: Tensor, dof: int
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    r"""Solve K1(t) = mean + gap; returns (s, p) of both chi-squares.

    Take the chi-square on the side of the gap as the main one (weight w, non-centrality c, s > 0)
    and the other (v, e, s = -y) against it, rho = v/w. Then the equation is

        s [c (2 + s) + D] + rho y [e (2 - y) + D] = |gap| / w,    y = rho s / (1 + (1 + rho) s)

    where both terms grow with s, the second ever more slowly. With its tangent in its place this
    is a quadratic whose root is too small, so repeating that climbs to the answer from below.
    """
    below = share_below(gap)
    weight, other = torch.lerp(up, down, below), torch.lerp(down, up, below)
    shift, other_shift = torch.lerp(up_shift, down_shift, below), torch.lerp(down_shift, up_shift, below)
    rho, target = other.div_(weight), gap.abs().div_(weight)
    equation = _Equation(target, rho, shift, 2 * shift + dof, other_shift, 2 * other_shift + dof)
    s = _climb(equation, _start(equation))
    p = 1 + s
    shrink = (rho + 1).mul_(s).add_(1).reciprocal_()
    minus_y, other_p = rho.mul_(s).mul_(shrink).neg_(), shrink.mul_(p)
    of_up = torch.lerp(s, minus_y, below), torch.lerp(p, other_p, below)
    return of_up, (torch.lerp(minus_y, s, below), torch.lerp(other_p, p, below))


def _start(equation: "_Equation") -> Tensor:
    """Six digits from float32 where that does not overflow: in float64 one step doubles them."""
    if equation.target.dtype == torch.float64:
        rough = _Equation(*(part.float() for part in equation))
        s = _climb(rough, rough.start()).double()
        if finite(s):
            return s
    return equation.start()


def _climb(equation: "_Equation", s: Tensor) -> Tensor:
    """Step until nothing moves; once few elements do, go on with those alone."""
    for _ in range(_MOST_STEPS):
        step = equation.step(s)
        move = torch.sub(step, s).abs_().sub_(step, alpha=_TOLERANCE[s.dtype])
        s = step
        if s.numel() == 0 or float(move.max()) <= 0:
            break
        moving = torch.nonzero(move > 0).squeeze(1)
        if 4 * len(moving) < len(s):
            rest = _Equation(*(part.index_select(0, moving) for part in equation))
            return s.index_copy_(0, moving, _climb(rest, s.index_select(0, moving)))
    return s


class _Equation(NamedTuple):
    """The equation of `_solve`, with slope = 2 c + D and other_slope = 2 e + D."""

    target: Tensor
    rho: Tensor
    shift: Tensor
    slope: Tensor
    other_shift: Tensor
    other_slope: Tensor

    def start(self) -> Tensor:
        tangent = torch.addcmul(self.slope, self.rho * self.rho, self.other_slope)
        s = _root(self.shift, tangent, self.target)
        return self.step(self.step(s))  # so many are needed almost always: to look at them costs more

    def step(self, s: Tensor) -> Tensor:
        y_by_s = (self.rho + 1).mul_(s).add_(1).reciprocal_().mul_(self.rho)
        y = y_by_s * s
        bend = self.other_shift * y
        tangent = (self.other_slope - 2 * bend).mul_(y_by_s).mul_(y_by_s)
        rest = torch.addcmul(self.target, tangent, s)
        rest.addcmul_(bend.neg_().add_(self.other_slope), y.mul_(self.rho), value=-1)
        climbed = _root(self.shift, tangent.add_(self.slope), rest.clamp_(min=0))
        return torch.maximum(climbed, 0.5 * s)  # rounding must not throw it back to 0


def _root(shift: Tensor, slope: Tensor, target: Tensor) -> Tensor:
    """The root of shift s^2 + slope s = target next to 0."""
    discriminant = (slope * slope).addcmul_(shift, target, value=4).clamp_(min=0)
    return (2 * target).div_(discriminant.sqrt_().add_(slope))


def finite(*tensors: Tensor) -> bool:
    return all(bool(tensor.sum().isfinite()) for tensor in tensors)


# Gauss's rule (node, weight) for the integral of v^4 f(v) over [0, 1], exact to degree 11.
_RULE = (
    (0.18946958392249336, 0.0002194139946210765),
    (0.3727511560142683, 0.00372678443917602),
    (0.5675723728545939, 0.019956264693075255),
    (0.7488364975055618, 0.05223995429324909),
    (0.8923851584465983, 0.0746491503132274),
    (0.9789852312564844, 0.04920843226665116),
)


def log_cdf_near_the_mean(dof: int, tensors: Sequence[Tensor], t: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
    """The value and its slopes by the form's tensors and the gap, given the saddlepoint t."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    with torch.enable_grad():
        law = chi_squares(QuadraticForm.of(leaves[:-1], dof))
        value = _log_cdf(law, leaves[-1], t)
        slopes = torch.autograd.grad(value.sum(), leaves, materialize_grads=True)
    return value.detach(), slopes


def _log_cdf(law: ChiSquares, gap: Tensor, t: Tensor) -> Tensor:
    r"""P = Phi(r) - phi(r) (c0 + c1), with every 0/0 divided out.

    Let R5(s) = (log(1+s) - s + s^2/2 - s^3/3 + s^4/4) / s^5, R4 = s R5 - 1/4, and over the two
    chi-squares, in units of sqrt(K2),

        1/q^2 = sum b^2 [c + D (1/2 - s/3 - s^2 R4)]      r = u / q
        V = sum b^3 [c + D (1/3 + s R4)]                  (K2 - K2/q^2) / t
        U = 3 sum b^4 [c - D R4]                          (K3 - 3 V) / t
        T = 12 sum b^5 [c + D R5]                         (K4 - 4 U) / t
        c0 = -V q^2 / (q + 1)
        c1 = V^3 q^2 (8 q^4 + 24 q^3 + 48 q^2 + 45 q + 15) / (8 (q+1)^3)
             - 5/24 (6 V U + u U^2) + T/8
    """
    weight, shift = (torch.stack(parts) for parts in zip(*law.terms, strict=True))
    t = _differentiable_saddlepoint(weight, shift, gap, t, law.dof)
    s, b = _at(weight, t)
    std = (b.square() * (shift * (1 + s) + law.dof / 2)).sum(0).sqrt()
    nodes, weights = torch.tensor(_RULE, dtype=t.dtype, device=t.device).unbind(1)
    r5 = torch.reciprocal(1 + s[..., None] * nodes) @ weights
    b, s_r4 = b / std, s * (s * r5 - 0.25)
    b2 = b * b
    b3 = b2 * b
    inverse_q2 = (b2 * (shift + law.dof * (0.5 - s * (1 / 3 + s_r4)))).sum(0)
    v3 = (b3 * (shift + law.dof * (1 / 3 + s_r4))).sum(0)
    u4 = (3 * b2 * b2 * (shift - law.dof * (s * r5 - 0.25))).sum(0)
    t5 = (12 * b2 * b3 * (shift + law.dof * r5)).sum(0)
    q, u = inverse_q2.rsqrt(), t * std
    r, next_q = u / q, q + 1
    polynomial = 15 + q * (45 + q * (48 + q * (24 + 8 * q)))
    c0 = -v3 * q * q / next_q
    c1 = (v3 * v3 * -c0) * polynomial / (8 * next_q * next_q)
    c1 = c1 - (5 / 24) * u4 * (6 * v3 + u * u4) + t5 / 8
    density = torch.exp(-0.5 * r * r) * (2 * torch.pi) ** -0.5
    return torch.log(torch.special.ndtr(r) - density * (c0 + c1))


def _at(weight: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    double = 2 * weight
    b = double / (1 - double * t)
    return b * t, b


def _differentiable_saddlepoint(weight: Tensor, shift: Tensor, gap: Tensor, t: Tensor, dof: int) -> Tensor:
    """One more Newton step from t, held fixed: its gradient is that of the root."""
    s, b = _at(weight, t)
    k1 = (weight * s * (shift * (2 + s) + dof)).sum(0)
    k2 = (b.square() * (shift * (1 + s) + dof / 2)).sum(0)
    return t - (k1 - gap) / k2.detach()
