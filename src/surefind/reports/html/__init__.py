"""One page that explains an evaluation, to be opened anywhere and mailed to anyone."""

from surefind.reports.html.page import write_report

__all__ = ["write_report"]
