"""The logarithm of the normal distribution function, exact and quick in both tails."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from surefind.functional.autograd import call

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
LARGEST_SLOPE = 1e6  # gradients stop growing a million standard deviations out: float32 overflows

# Beyond this many standard deviations erfc runs out of digits and the asymptotic series is exact.
_FAR = {torch.float32: -10.0, torch.float64: -24.0}
# Mills' ratio: Phi(z) ~ phi(z)/|z| * (1 - 1/z^2 + 3/z^4 - 15/z^6 + ...)
_SERIES = (1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0)


def log_ndtr(z: Tensor) -> Tensor:
    r"""log Phi(z), with relative accuracy for every z.

        z < 0:  log(erfc(-z / sqrt 2) / 2)          z >= 0:  log1p(-erfc(z / sqrt 2) / 2)

    The same function as `torch.special.log_ndtr`, but every part is a vectorised operation and the
    slope phi/Phi is made from the value, which makes it several times faster on a CPU.
    """
    return call(_LogNdtr, z)


def share_below(z: Tensor) -> Tensor:
    """1 where z < 0, 0 where z > 0, to select by multiplication: torch.where is far slower."""
    return torch.copysign(torch.ones((), dtype=z.dtype, device=z.device), z).mul_(-0.5).add_(0.5)


class _LogNdtr(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        tail = torch.erfc(z.abs().mul_(math.sqrt(0.5))).mul_(0.5)
        below = share_below(z)
        above = torch.log1p(-tail).mul_(1 - below)
        value = tail.clamp_(min=torch.finfo(z.dtype).tiny).log_().mul_(below).add_(above)
        if _reaches_far(z):
            far = z < _FAR[z.dtype]
            value[far] = _log_far_tail(z[far])
        ctx.save_for_backward(z, value)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        z, value = ctx.saved_tensors
        slope = z.square().mul_(-0.5).sub_(value).sub_(LOG_SQRT_2PI).exp_()
        if _reaches_far(z):
            far = z < _FAR[z.dtype]
            slope[far] = (-z[far] / _mills_series(z[far])).clamp_(max=LARGEST_SLOPE)
        return slope.mul_(grad)


def _reaches_far(z: Tensor) -> bool:
    return z.numel() > 0 and float(z.min()) < _FAR[z.dtype]


def _log_far_tail(z: Tensor) -> Tensor:
    return _mills_series(z).log() - torch.log(-z) - 0.5 * z * z - LOG_SQRT_2PI


def _mills_series(z: Tensor) -> Tensor:
    inverse = 1 / (z * z)
    total = torch.full_like(z, _SERIES[-1])
    for coefficient in reversed(_SERIES[:-1]):
        total = total * inverse + coefficient
    return total
