"""The folder of a report: numbers, queries, figures, page, and the embeddings to start from."""

from pathlib import Path

from surefind.files import make_writable
from surefind.reports.evaluate import Evaluation, Request, evaluate
from surefind.reports.figures.report import DRAWINGS, write_figures
from surefind.reports.html import write_report
from surefind.reports.result import EvalResult, Report
from surefind.validation import check_choice

TABLES = ("csv", "parquet")


class ReportFolder:
    """Where `surefind evaluate` writes."""

    def __init__(self, folder: Path, *, table: str = "csv") -> None:
        check_choice("--rows", table, TABLES)
        self.folder = folder
        self.results = folder / "results.json"
        self.queries = folder / f"queries.{table}"
        self.figures = folder / "figures"
        self.page = folder / "report.html"
        self.embeddings = folder / "embeddings"

    def make(self) -> None:
        """Before the work: find out whether it can be written."""
        make_writable(self.folder)

    def write(self, evaluation: Evaluation) -> None:
        """Everything; the results last, so that their file says that all is there."""
        result, queries = evaluation
        queries.write(self.queries)
        report = Report(result.about.model, result, queries)
        write_figures(DRAWINGS, [report], self.figures, lenient=True)
        write_report(self.folder, result, queries)
        result.write(self.results)


def evaluate_into(request: Request, *, output: Path, kept_in: Path) -> EvalResult:
    """Evaluate and write a report; embeddings are kept where other reports find them."""
    folder = ReportFolder(output)
    folder.make()
    evaluation = evaluate(request, kept_in=kept_in)
    folder.write(evaluation)
    return evaluation.result
