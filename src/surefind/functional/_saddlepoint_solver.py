"""Where the saddlepoint of a sum of chi-squares is.

For a chi-square of weight w the saddlepoint t is expressed as s = p - 1, p = 1/(1 - 2 w t), which
keeps all digits both at t = 0 and next to the poles.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from surefind.functional.normal import share_below
from surefind.functional.quadratic_form import ChiSquares

_TOLERANCE = 1e-4  # of the last step towards the saddlepoint; what is left is about its square
_MOST_STEPS = 60


class Term(NamedTuple):
    """One chi-square at the saddlepoint; its weight is signed."""

    weight: Tensor
    shift: Tensor
    s: Tensor
    p: Tensor
    t: Tensor


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
    above = 1 - below
    weight, other = above * up + below * down, below * up + above * down
    shift, other_shift = (above * up_shift + below * down_shift, below * up_shift + above * down_shift)
    rho = other.div_(weight)
    equation = _Equation(
        target=gap.abs().div_(weight),
        rho=rho,
        shift=shift,
        slope=2 * shift + dof,
        other_shift=other_shift,
        other_slope=2 * other_shift + dof,
    )
    s = _climb(equation, _start(equation))
    p = 1 + s
    shrink = (rho + 1).mul_(s).add_(1).reciprocal_()
    y, other_p = rho.mul_(s).mul_(shrink), shrink.mul_(p)
    return ((above * s - below * y, above * p + below * other_p), (below * s - above * y, below * p + above * other_p))


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
        move = torch.sub(step, s).abs_().sub_(step, alpha=_TOLERANCE)
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
        return _root(self.shift, tangent, self.target)

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
