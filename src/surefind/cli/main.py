"""The command `surefind`."""

import sys
from io import TextIOWrapper

import typer

from surefind.cli.calibrate import calibrate
from surefind.cli.check import check
from surefind.cli.doctor import doctor
from surefind.cli.evaluate import evaluate
from surefind.cli.figures import figures_app
from surefind.cli.index import index
from surefind.cli.info import info
from surefind.cli.recipes import recipes
from surefind.cli.reproduce import reproduce
from surefind.cli.search import search
from surefind.cli.serve import serve
from surefind.cli.train import train
from surefind.cli.upgrade import upgrade
from surefind.cli.verify import verify
from surefind.errors import SurefindError
from surefind.search.printable import printable_lines

app = typer.Typer(
    name="surefind",
    help="Image retrieval that knows how sure it is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (
    train, upgrade, evaluate, index, calibrate, search, serve, info, verify,
    reproduce, check, recipes, doctor,
):  # fmt: skip
    app.command()(command)
app.add_typer(figures_app, name="figures")


def main() -> None:
    """Run a command; a problem the user can act on is one message, not a traceback."""
    for stream in (sys.stdout, sys.stderr):  # a name that cannot be written is no reason to stop
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except SurefindError as error:
        print(f"error: {printable_lines(str(error))}", file=sys.stderr)
        sys.exit(1)
