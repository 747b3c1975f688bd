"""The logarithm of the normal distribution function, exact and quick in both tails."""

import math

import torch
from torch import Tensor

from surefind.functional._autograd import LARGEST_SLOPE, with_slopes

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

# Beyond this many standard deviations erfc runs out of digits and the asymptotic series is exact.
_FAR = {torch.float32: 10.0, torch.float64: 24.0}
_FEW = 1 << 10  # elements: up to here two loops of scalars cost less than many vectorised operations
# Mills' ratio: Phi(-r) ~ phi(r)/r * (1 - 1/r^2 + 3/r^4 - 15/r^6 + ...)
_SERIES = (1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0)


def log_normal_cdf(gap: Tensor, var: Tensor) -> Tensor:
    """log Phi(gap / sqrt(var)), with relative accuracy wherever it is not as good as 0."""
    return with_slopes(normal_cdf_with_slopes, *torch.broadcast_tensors(gap, var))


def normal_cdf_with_slopes(gap: Tensor, var: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """log Phi(gap / sqrt(var)), and its slopes by the two."""
    inverse_std = var.rsqrt()
    z = (gap * inverse_std).contiguous()
    if z.numel() <= _FEW:
        value, slope = torch.special.log_ndtr(z), math.sqrt(2 / math.pi) / torch.special.erfcx(-math.sqrt(0.5) * z)
    else:
        below, slope = log_cdf_and_slope(z)
        above = torch.log1p(z.clamp(0, _FAR[z.dtype]).mul_(math.sqrt(0.5)).erfc_().mul_(-0.5))
        value = torch.lerp(above, below, share_below(z))  # torch.where is far slower
    by_gap = slope.mul_(inverse_std).clamp_(max=LARGEST_SLOPE)
    by_var = z.mul_(inverse_std).mul_(by_gap).mul_(-0.5).clamp_(-LARGEST_SLOPE, LARGEST_SLOPE)
    return value, (by_gap, by_var)


def log_cdf_and_slope(z: Tensor) -> tuple[Tensor, Tensor]:
    r"""log Phi(z) and its slope phi(z) / Phi(z).

    The logarithm has relative accuracy below 0 and absolute accuracy above. `torch.special.log_ndtr` is a loop of
    scalars, ten times slower than these vectorised operations.
    """
    far = _FAR[z.dtype]
    x = z.clamp(min=-far).mul_(-math.sqrt(0.5))
    cdf = torch.erfc(x).mul_(0.5)
    slope = x.square_().mul_(-1 / math.log(2)).exp2_().mul_(1 / math.sqrt(2 * math.pi)).div_(cdf)  # exp is slower
    value = cdf.log_()
    if z.numel() > 0 and float(z.min()) < -far:
        index = torch.nonzero(z.view(-1) < -far).squeeze(1)
        r = -z.view(-1).index_select(0, index)
        mills = _mills_series(r)
        value.view(-1).index_copy_(0, index, (mills / r).log() - 0.5 * r * r - LOG_SQRT_2PI)
        slope.view(-1).index_copy_(0, index, r / mills)
    return value, slope


def share_below(z: Tensor) -> Tensor:
    """1 where z < 0, 0 where z > 0, to select by multiplication: torch.where is far slower."""
    return torch.copysign(torch.ones((), dtype=z.dtype, device=z.device), z).mul_(-0.5).add_(0.5)


def _mills_series(r: Tensor) -> Tensor:
    inverse = 1 / (r * r)
    total = torch.full_like(r, _SERIES[-1])
    for coefficient in reversed(_SERIES[:-1]):
        total = total * inverse + coefficient
    return total
