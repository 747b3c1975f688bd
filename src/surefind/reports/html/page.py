"""The page put together and written whole or not at all."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from surefind.files import make_writable, write_whole
from surefind.reports.html.best import RANKING
from surefind.reports.html.drawings import draw, drawings
from surefind.reports.html.facts import facts
from surefind.reports.html.glossary import GLOSSARY
from surefind.reports.html.headline import sentences
from surefind.reports.html.numbers import decimal
from surefind.reports.html.shelves import shelves
from surefind.reports.html.tables import ece_table, ladder_tables, retrieval_table, signal_tables
from surefind.reports.html.tiles import tiles
from surefind.reports.names import is_learned, ranking_name
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult

NAME = "report.html"

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["decimal"] = decimal


def write_report(folder: Path, result: EvalResult, queries: QueryTable) -> Path:
    """`report.html` in the folder: one file that needs nothing beside it, and no network."""
    path = folder / NAME
    page = render(result, queries, figures=draw(result, queries))
    make_writable(folder)
    write_whole(path, page.encode())
    return path


def render(result: EvalResult, queries: QueryTable, *, figures: dict[str, str]) -> str:
    """The page as text; figures are SVG by name."""
    rankings = result.rankings
    ece = [ece_table(name, ranking) for name, ranking in rankings.items()]
    return _TEMPLATES.get_template(NAME).render(
        about=result.about,
        sentences=sentences(result),
        tiles=tiles(result),
        retrieval=retrieval_table(rankings),
        signals={ranking_name(name): signal_tables(ranking) for name, ranking in rankings.items()},
        main=ranking_name(RANKING),
        learned=any(map(is_learned, rankings[RANKING].signals)),
        ece=[table for table in ece if table],
        drawings=drawings(figures),
        ladder=ladder_tables(result.ladder) if result.ladder else [],
        shelves=shelves(result, queries),
        exclusions=result.exclusions,
        facts=facts(result.about),
        glossary=GLOSSARY,
    )
