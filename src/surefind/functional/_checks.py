"""Checks of embeddings and methods passed as arguments."""

from surefind.embeddings import Embeddings
from surefind.errors import InvalidArgument
from surefind.validation import check_choice

METHODS = ("clt", "saddlepoint", "exact")


def check_pair(first: Embeddings, second: Embeddings, names: str = "query, gallery") -> None:
    """Both must be embeddings of one family and one dimension."""
    for name, batch in zip(names.split(", "), (first, second), strict=True):
        check_embeddings(name, batch)
    if type(first) is not type(second):
        raise InvalidArgument(
            names,
            expected="embeddings of one family",
            got=f"{type(first).__name__} and {type(second).__name__}",
            fix="encode both with the same model",
        )
    if first.dim != second.dim:
        raise InvalidArgument(
            names,
            expected="embeddings of one dimension",
            got=f"{first.dim} and {second.dim} dimensions",
        )


def check_embeddings(name: str, batch: object) -> None:
    if not isinstance(batch, Embeddings):
        raise InvalidArgument(
            name,
            expected="Gaussians or VonMisesFisher",
            got=type(batch).__name__,
            fix="wrap means and variances: surefind.Gaussians(mean, var)",
        )


def check_method(method: str, *, on_sphere: bool) -> None:
    check_choice("method", method, METHODS)
    if on_sphere and method == "exact":
        raise InvalidArgument(
            "method",
            expected="'clt' or 'saddlepoint' for von Mises-Fisher embeddings",
            got="'exact'",
            fix="use 'saddlepoint', or the approximation of .as_gaussians()",
        )
