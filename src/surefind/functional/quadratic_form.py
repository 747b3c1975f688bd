"""The law of a difference of squared distances: two scaled non-central chi-squares."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Size, Tensor, broadcast_shapes

from surefind.functional._autograd import widen


class QuadraticForm(NamedTuple):
    r"""A random variable by its cumulant generating function, one per element.

        K(t) = (t shift + 2 t^2 noise) / q(t) - (D/2) log q(t)
        q(t) = 1 - 2 tilt t - 4 spread t^2

    The difference of two squared distances between Gaussians has this form, and so has, up to
    its third cumulant, the same difference on the sphere. With spread = None there is no t^2 in q
    and no noise: that is a single squared distance.
    """

    shift: Tensor
    noise: Tensor
    tilt: Tensor
    spread: Tensor | None
    dof: int  # D

    @classmethod
    def of(cls, parts: Sequence[Tensor], dof: int) -> "QuadraticForm":
        """From three tensors, or four with spread."""
        shift, noise, tilt, *spread = parts
        return cls(shift, noise, tilt, spread[0] if spread else None, dof)

    def flat_with(self, gap: Tensor, *, wide: bool) -> tuple[list[Tensor], Size]:
        """Its tensors and the gap, broadcast and flattened, and the shape; in float64 if `wide`."""
        tensors = [part for part in (*self[:4], gap) if isinstance(part, Tensor)]
        shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
        if wide or len({tensor.dtype for tensor in tensors}) > 1:
            tensors = [widen(tensor) for tensor in tensors]
        return [tensor.expand(shape).reshape(-1) for tensor in tensors], shape

    @property
    def mean(self) -> Tensor:
        """K'(0)"""
        return self.shift + self.dof * self.tilt

    @property
    def var(self) -> Tensor:
        """K''(0)"""
        twice = self.tilt * self.tilt if self.spread is None else self.tilt.square() + 2 * self.spread
        return 4 * (self.noise + self.shift * self.tilt) + 2 * self.dof * twice


class ChiSquares(NamedTuple):
    """The same variable as up * chi2_D(up_shift) - down * chi2_D(down_shift), all of them >= 0."""

    up: Tensor
    up_shift: Tensor
    down: Tensor | None
    down_shift: Tensor | None
    dof: int

    @property
    def terms(self) -> list[tuple[Tensor, Tensor]]:
        """Signed weight and non-centrality of each: two of them, or one."""
        first = [(self.up, self.up_shift)]
        if self.down is None or self.down_shift is None:
            return first
        return [*first, (-self.down, self.down_shift)]


def chi_squares(form: QuadraticForm) -> ChiSquares:
    r"""The weights are the roots of q, the shifts its residues.

        s = sqrt(tilt^2 + 4 spread),   up - down = tilt,   up * down = spread
        up_shift = (noise / up + shift) / s,   down_shift = (noise / down - shift) / s

    The smaller weight comes from the product, the larger from the difference: no digits are lost.
    """
    if form.spread is None:
        return ChiSquares(form.tilt, form.shift / form.tilt, None, None, form.dof)
    root = (form.tilt.square() + 4 * form.spread).sqrt()
    size = form.tilt.abs()
    smaller = 2 * form.spread / (size + root)
    # Halves of a sum: clamp has the slope of one side at a tilt of 0, where both count.
    up, down = smaller + (size + form.tilt) / 2, smaller + (size - form.tilt) / 2
    return ChiSquares(
        up=up,
        up_shift=((form.noise / up + form.shift) / root).clamp(min=0),
        down=down,
        down_shift=((form.noise / down - form.shift) / root).clamp(min=0),
        dof=form.dof,
    )
