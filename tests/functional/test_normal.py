"""The logarithm of the normal distribution function."""

import mpmath as mp
import pytest
import torch

from surefind.functional.normal import log_normal_cdf

POINTS = [-1e5, -1e3, -100, -40, -24.1, -23.9, -10.1, -9.9, -5, -1, -1e-3, 0, 0.1, 1, 3, 6, 9.9]


MANY = pytest.mark.parametrize("copies", [1, 1000])  # few elements and many are computed differently


def log_ndtr(z: torch.Tensor) -> torch.Tensor:
    return log_normal_cdf(z, torch.ones_like(z))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
@MANY
def test_value_and_slope_agree_with_forty_digits(dtype: torch.dtype, tolerance: float, copies: int):
    z = torch.tensor(POINTS, dtype=dtype).repeat(copies).requires_grad_()
    value = log_ndtr(z)
    value.sum().backward()
    with mp.workdps(40):
        exact = [mp.log(mp.ncdf(x)) if x < 3 else mp.log1p(-mp.ncdf(-x)) for x in z[: len(POINTS)].tolist()]
        slope = [mp.npdf(x) / mp.ncdf(x) for x in z[: len(POINTS)].tolist()]
    wanted = torch.tensor([float(x) for x in exact], dtype=torch.float64).repeat(copies)
    torch.testing.assert_close(value.double(), wanted, rtol=tolerance, atol=0)
    wanted = torch.tensor([float(x) for x in slope], dtype=torch.float64).repeat(copies)
    assert z.grad is not None
    torch.testing.assert_close(z.grad.double(), wanted, rtol=10 * tolerance, atol=0)


def test_gradcheck():
    gap = torch.tensor([-40.0, -3.0, -0.1, 0.0, 0.2, 4.0], dtype=torch.float64, requires_grad=True)
    var = torch.tensor([0.5, 1.0, 2.0, 1.0, 0.1, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_normal_cdf, (gap, var))


@MANY
def test_the_layout_in_memory_does_not_matter(copies: int):
    z = torch.linspace(-60, 8, 12 * copies).reshape(3, -1).T.requires_grad_()
    value = log_ndtr(z)
    value.sum().backward()
    wanted = log_ndtr(z.detach().contiguous())
    torch.testing.assert_close(value, wanted)
    assert z.grad is not None
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@MANY
def test_the_ends_are_finite(dtype: torch.dtype, copies: int):
    z = torch.tensor([-1e15, -1e8, 1e8, 1e15], dtype=dtype).repeat_interleave(copies).requires_grad_()
    value = log_ndtr(z)
    value.sum().backward()
    assert value.isfinite().all()
    assert z.grad is not None
    assert z.grad.isfinite().all()
    assert (value[2 * copies :] > -1e-20).all()
