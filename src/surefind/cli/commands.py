"""All commands of `surefind`, in the order of its help; each module is loaded when it is used."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

from typer import Exit, Option, Typer
from typer.core import TyperGroup
from typer.main import get_command

import surefind
from surefind.cli.errors import EXIT_CODES
from surefind.cli.options import Debug, Quiet, register
from surefind.cli.output import set_verbosity

PANELS = {
    "First steps": ("demo", "doctor", "check", "recipes"),
    "Build": ("train", "index", "attach", "encode", "calibrate", "upgrade"),
    "Search": ("search", "serve", "info", "verify"),
    "Evaluate": ("evaluate", "reproduce", "figures"),
    "Share": ("export", "push"),
}
PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}
HOME = {"attach": "index", "recipes": "train", "verify": "info"}  # modules of another name


@cache
def load_command(name: str) -> Any:
    """Load a command: the function of its name in its module."""
    alone = Typer(add_completion=False)
    module = import_module(f"surefind.cli.{HOME.get(name, name)}")
    register(alone, getattr(module, name), panel=PANEL_OF[name])
    return get_command(alone)


class _Commands(Mapping[str, Any]):
    """Commands by name, loaded when they are looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in PANEL_OF:
            raise KeyError(name)
        return load_command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(PANEL_OF)

    def __len__(self) -> int:
        return len(PANEL_OF)


class _Group(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": _Commands()})


app = Typer(
    name="surefind",
    cls=_Group,
    help="Image search that tells you when to trust it.",
    epilog="\n".join(["Exit codes:", *(f"{n:>3}  {text}" for n, text in EXIT_CODES.items())]),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


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
