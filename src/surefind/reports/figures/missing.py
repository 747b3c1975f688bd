"""A drawing whose numbers the evaluation did not take."""

from surefind.errors import SurefindError


class NothingToDraw(SurefindError):
    """The report is fine, but holds nothing for this figure."""
