"""The second-order saddlepoint approximation next to the mean, where its usual form is 0/0."""

from collections.abc import Sequence

import torch
from torch import Tensor

from surefind.functional.quadratic import ChiSquares, QuadraticForm, chi_squares

# Gauss's rule (node, weight) for the integral of v^4 f(v) over [0, 1], exact to degree 11.
_RULE = (
    (0.18946958392249336, 0.0002194139946210765),
    (0.3727511560142683, 0.00372678443917602),
    (0.5675723728545939, 0.019956264693075255),
    (0.7488364975055618, 0.05223995429324909),
    (0.8923851584465983, 0.0746491503132274),
    (0.9789852312564844, 0.04920843226665116),
)


def log_cdf_near_the_mean(
    dof: int, tensors: Sequence[Tensor], t: Tensor
) -> tuple[Tensor, Sequence[Tensor]]:
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


def _differentiable_saddlepoint(
    weight: Tensor, shift: Tensor, gap: Tensor, t: Tensor, dof: int
) -> Tensor:
    """One more Newton step from t, held fixed: its gradient is that of the root."""
    s, b = _at(weight, t)
    k1 = (weight * s * (shift * (2 + s) + dof)).sum(0)
    k2 = (b.square() * (shift * (1 + s) + dof / 2)).sum(0)
    return t - (k1 - gap) / k2.detach()
