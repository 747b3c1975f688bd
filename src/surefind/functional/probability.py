"""One door to the three ways of computing a probability."""

from torch import Tensor

from surefind.functional.contour import log_cdf_exact
from surefind.functional.normal import log_normal_cdf
from surefind.functional.quadratic import QuadraticForm
from surefind.functional.saddlepoint import log_cdf_saddlepoint


def log_cdf(form: QuadraticForm, gap: Tensor, method: str) -> Tensor:
    """log P(variable < mean + gap)."""
    if method == "clt":
        return log_normal_cdf(gap, form.var)
    return (log_cdf_exact if method == "exact" else log_cdf_saddlepoint)(form, gap)
