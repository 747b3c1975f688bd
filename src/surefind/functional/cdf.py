"""Probabilities of a quadratic form: clt, saddlepoint, or exact along a curved path."""

import math

import torch
from torch import Tensor

from surefind.errors import InvalidArgument
from surefind.functional.normal import log_normal_cdf
from surefind.functional.quadratic_form import QuadraticForm, chi_squares
from surefind.functional.saddlepoint import log_cdf_saddlepoint, terms_at_saddlepoint
from surefind.validation import check_choice

METHODS = ("clt", "saddlepoint", "exact")
_NODES = 1200  # of the trapezium rule; half as many already agree to 1e-12 for D >= 2
_REACH = 40.0  # of the path parameter: sinh(40) standard deviations
_BATCH = 1 << 9  # elements at once: 10 MB for each intermediate result


def check_method(method: str, *, on_sphere: bool) -> None:
    check_choice("method", method, METHODS)
    if on_sphere and method == "exact":
        raise InvalidArgument(
            "method",
            expected="'clt' or 'saddlepoint' for von Mises-Fisher embeddings",
            got="'exact'",
            fix="use 'saddlepoint', or the approximation of .as_gaussians()",
        )


def log_cdf(form: QuadraticForm, gap: Tensor, method: str) -> Tensor:
    """log P(variable < mean + gap)."""
    if method == "clt":
        return log_normal_cdf(gap, form.var)
    return (log_cdf_exact if method == "exact" else log_cdf_saddlepoint)(form, gap)


def log_cdf_exact(form: QuadraticForm, gap: Tensor) -> Tensor:
    r"""log P(variable < mean + gap), to about 12 digits relative, however small P is.

        P(tail) = |1/(2 pi i) int exp(K(t) - t x) dt / t|,   t(v) = c + a (cosh v - 1) + i h sinh v

    The path crosses the real axis at c, next to the saddlepoint on the side of the smaller tail,
    and bends (a) to where exp(-t x) decays, so that the integrand falls off double-exponentially
    and the trapezium rule converges like it does for a Gaussian. Imhof's integral is the same one
    along c = 0, a = 0, where it has absolute accuracy only. The path is held fixed in the
    gradient: the integral does not depend on it.
    """
    flat, shape = form.flat_with(gap, wide=True)
    pieces = [
        _log_cdf(QuadraticForm.of(parts, form.dof), piece)
        for *parts, piece in zip(*(tensor.split(_BATCH) for tensor in flat), strict=True)
    ]
    return torch.cat(pieces).reshape(shape).to(gap.dtype)


def _log_cdf(form: QuadraticForm, gap: Tensor) -> Tensor:
    crossing, height, bend = _path(form, gap)
    x = form.mean + gap
    steps = torch.linspace(0, _REACH, _NODES, dtype=x.dtype, device=x.device)[:, None]
    sinh, cosh = steps.sinh(), steps.cosh()
    t = torch.complex(crossing + bend * (cosh - 1), height * sinh)
    direction = torch.complex(height * cosh, -bend * sinh)  # dt / (i dv)
    base = _exponent(form, x, crossing.to(t.dtype)).real
    integrand = (torch.exp(_exponent(form, x, t) - base) * direction / t).real
    integral = (integrand.sum(0) - 0.5 * integrand[0]) * (_REACH / (_NODES - 1)) / math.pi
    log_tail = base + integral.abs().log()
    # log1p(-Q) where the tail is above; the other branch is kept away from its pole
    above = torch.log1p(-torch.exp(log_tail.where(gap >= 0, log_tail - 1)))
    return log_tail.where(gap < 0, above)


def _exponent(form: QuadraticForm, x: Tensor, t: Tensor) -> Tensor:
    """K(t) - t x, with log q(t) taken root by root so that it stays on one branch."""
    total = -t * x
    for weight, shift in chi_squares(form).terms:
        rest = 1 - 2 * weight * t
        total = total + t * weight * shift / rest - 0.5 * form.dof * rest.log()
    return total


@torch.no_grad()
def _path(form: QuadraticForm, gap: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where the path crosses the real axis, its scale along it, and how much it bends."""
    law = chi_squares(form)
    terms = terms_at_saddlepoint(law, gap)
    t = terms[0].t
    k2 = [(2 * x.weight * x.p).square() * (x.shift * x.p + law.dof / 2) for x in terms]
    height = torch.stack(k2).sum(0).rsqrt()
    # away from the pole of 1/t at 0, but no further than half-way to the pole of exp K
    upper = torch.minimum(t + height, (t + 0.5 / law.up) / 2)
    lower = t - height
    if law.down is not None:
        lower = torch.maximum(lower, (t - 0.5 / law.down) / 2)
    crossing = upper.where(gap >= 0, lower)
    x = form.mean + gap
    bend = 0.5 * height * x / (x.abs() + 0.1 / crossing.abs())
    return crossing, height, bend
