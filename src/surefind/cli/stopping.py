"""Ctrl-C as a request, so that nothing is lost."""

import signal
from typing import Any

from surefind.cli.failing import StoppedAsAsked
from surefind.errors import SurefindError


class StopRequest:
    """Ctrl-C or a polite kill ends the run after the step it is in; a second Ctrl-C ends it now."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGINT, self._ask)
        signal.signal(signal.SIGTERM, self._ask)

    def __call__(self) -> bool:
        return self.asked

    def explain(self, error: SurefindError) -> SurefindError:
        """What ended the run: the request, if there was one."""
        return StoppedAsAsked(error.problem, fix=error.fix) if self.asked else error

    def _ask(self, number: int, frame: Any) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
