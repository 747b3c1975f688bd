"""The command `surefind`."""

import sys

import typer

from surefind.cli.check import check
from surefind.cli.doctor import doctor
from surefind.cli.evaluate import evaluate
from surefind.cli.figures import figures_app
from surefind.cli.recipes import recipes
from surefind.cli.reproduce import reproduce
from surefind.cli.train import train
from surefind.errors import SurefindError

app = typer.Typer(
    name="surefind",
    help="Image retrieval that knows how sure it is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (train, evaluate, reproduce, check, recipes, doctor):
    app.command()(command)
app.add_typer(figures_app, name="figures")


def main() -> None:
    """Run a command; a problem the user can act on is one message, not a traceback."""
    try:
        app()
    except SurefindError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
