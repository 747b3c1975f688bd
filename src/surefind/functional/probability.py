"""One door to the three ways of computing a probability."""

from torch import Tensor

from surefind.functional.contour import log_cdf_exact
from surefind.functional.normal import log_ndtr
from surefind.functional.quadratic import QuadraticForm
from surefind.functional.saddlepoint import log_cdf_saddlepoint


def log_cdf(form: QuadraticForm, gap: Tensor, var: Tensor, method: str) -> Tensor:
    """log P(variable < mean + gap) for a variable of this variance and the shape of this form.

    On the sphere the form's own variance is a little larger, so the gap is carried over in
    standard deviations.
    """
    if method == "clt":
        return log_ndtr(gap * var.rsqrt())
    of_form = gap * (form.var / var).sqrt()
    return (log_cdf_exact if method == "exact" else log_cdf_saddlepoint)(form, of_form)
