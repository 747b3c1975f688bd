"""The logarithm of the normal distribution function, exact and quick in both tails."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from surefind.functional._autograd import LARGEST_SLOPE, call

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

# Beyond this many standard deviations erfc runs out of digits and the asymptotic series is exact.
_FAR = {torch.float32: 10.0, torch.float64: 24.0}
# Numbers below are as good as zero, and processors are slow with them.
_LOG_SMALLEST = {torch.float32: -85.0, torch.float64: -700.0}
# Mills' ratio: Phi(-r) ~ phi(r)/r * (1 - 1/r^2 + 3/r^4 - 15/r^6 + ...)
_SERIES = (1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0)


def log_normal_cdf(gap: Tensor, var: Tensor) -> Tensor:
    r"""log Phi(z) for z = gap / sqrt(var), with relative accuracy wherever it is not as good as 0.

        z < 0:  log(erfc(-z / sqrt 2) / 2)          z >= 0:  log1p(-erfc(z / sqrt 2) / 2)

    Like `torch.special.log_ndtr` of z, but every part is a vectorised operation and the slope
    phi/Phi is made from the value.
    """
    return call(_LogNormalCdf, *torch.broadcast_tensors(gap, var))


def log_tail(r: Tensor) -> Tensor:
    """log Phi(-r) for r >= 0; no gradient."""
    value = torch.erfc(r * math.sqrt(0.5)).mul_(0.5).clamp_(min=torch.finfo(r.dtype).tiny).log_()
    far = _far(r)
    if far is not None:
        x = r.view(-1).index_select(0, far)
        series = _mills_series(x).log() - torch.log(x) - 0.5 * x * x - LOG_SQRT_2PI
        value.view(-1).index_copy_(0, far, series)
    return value


def hazard(z: Tensor, log_cdf: Tensor) -> Tensor:
    """phi(z) / Phi(z), the slope of log Phi; no gradient."""
    log_slope = z.square().mul_(-0.5).sub_(log_cdf).sub_(LOG_SQRT_2PI)
    slope = log_slope.clamp_(min=_LOG_SMALLEST[z.dtype]).exp_()
    far = _far(-z)
    if far is not None:
        x = -z.view(-1).index_select(0, far)
        slope.view(-1).index_copy_(0, far, x / _mills_series(x))
    return slope


def share_below(z: Tensor) -> Tensor:
    """1 where z < 0, 0 where z > 0, to select by multiplication: torch.where is far slower."""
    return torch.copysign(torch.ones((), dtype=z.dtype, device=z.device), z).mul_(-0.5).add_(0.5)


class _LogNormalCdf(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gap: Tensor, var: Tensor) -> Tensor:
        inverse_std = var.rsqrt()
        z = (gap * inverse_std).contiguous()
        below = share_below(z)
        value = log_tail(torch.maximum(-z, z.clamp(max=_FAR[z.dtype])))
        above = torch.log1p(value.exp().mul_(below - 1))  # log(1 - tail) above 0, 0 below
        value.mul_(below).add_(above)
        ctx.save_for_backward(z, inverse_std, value)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        z, inverse_std, value = ctx.saved_tensors
        by_gap = hazard(z, value).mul_(inverse_std).clamp_(max=LARGEST_SLOPE)
        by_var = z.mul(inverse_std).mul_(by_gap).mul_(-0.5)
        by_var.clamp_(-LARGEST_SLOPE, LARGEST_SLOPE)
        return by_gap.mul_(grad), by_var.mul_(grad)


def _far(r: Tensor) -> Tensor | None:
    """Flat indices of what is in the far tail, if anything is."""
    if r.numel() == 0 or float(r.max()) <= _FAR[r.dtype]:
        return None
    return torch.nonzero(r.view(-1) > _FAR[r.dtype]).squeeze(1)


def _mills_series(r: Tensor) -> Tensor:
    inverse = 1 / (r * r)
    total = torch.full_like(r, _SERIES[-1])
    for coefficient in reversed(_SERIES[:-1]):
        total = total * inverse + coefficient
    return total
