"""All commands of `surefind`, in the order of its help."""

from typing import Annotated

from typer import Exit, Option, Typer

import surefind
from surefind.cli.attach import attach
from surefind.cli.calibrate import calibrate
from surefind.cli.check import check
from surefind.cli.demo import demo
from surefind.cli.doctor import doctor
from surefind.cli.encode import encode
from surefind.cli.errors import EXIT_CODES
from surefind.cli.evaluate import evaluate
from surefind.cli.export import export
from surefind.cli.figures import figures
from surefind.cli.index import index
from surefind.cli.info import info, verify
from surefind.cli.options import Command, Debug, Quiet, register
from surefind.cli.output import set_verbosity
from surefind.cli.push import push
from surefind.cli.recipes import recipes
from surefind.cli.reproduce import reproduce
from surefind.cli.search import search
from surefind.cli.serve import serve
from surefind.cli.train import train
from surefind.cli.upgrade import upgrade

PANELS: dict[str, tuple[Command, ...]] = {
    "First steps": (demo, doctor, check, recipes),
    "Build": (train, index, attach, encode, calibrate, upgrade),
    "Search": (search, serve, info, verify),
    "Evaluate": (evaluate, reproduce, figures),
    "Share": (export, push),
}

app = Typer(
    name="surefind",
    help="Image search that tells you when to trust it.",
    epilog="\n".join(["Exit codes:", *(f"{n:>3}  {text}" for n, text in EXIT_CODES.items())]),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for panel, commands in PANELS.items():
    for command in commands:
        register(app, command, panel=panel)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"surefind {surefind.__version__}")
        raise Exit


@app.callback()
def before_any_command(
    quiet: Quiet = False,
    debug: Debug = False,
    version: Annotated[  # noqa: ARG001  # handled by its callback
        bool, Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    set_verbosity(quiet=quiet, debug=debug)
