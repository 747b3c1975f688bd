"""Commands of surefind in documents: in this process, on small data, and with short training."""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import typer
from command import Done, Surefind
from documents_shell import Call
from documents_world import World
from matplotlib.figure import Figure
from serving import served

from surefind.datasets import glyphs
from surefind.engines.milvus.url import parse as parse_milvus
from surefind.engines.pgvector.url import parse as parse_pgvector
from surefind.errors import SurefindError
from surefind.reports import intervals
from surefind.reports.figures import saving
from surefind.search.index import Index
from surefind.serve import server
from surefind.serve.settings import Settings
from surefind.training.recipe import Recipe

SHORT = (
    "encoder.backbone=tiny", "encoder.weights=none", "encoder.dim=16", "encoder.size=16",
    "encoder.start=random", "batch.classes=4", "batch.images=3", "batch.tuples=4", "batch.chunk=0",
    "mining.cache=60", "optimiser.freeze_first=[]", "augment.size=16", "augment.views=1",
    "schedule.steps=6", "schedule.validate_every=3",
)  # fmt: skip
# Of options that would only make it longer, what is given last counts.
SHORTER = {
    "evaluate": ("--ladder", "4"),
    "reproduce": ("--seeds", "1", "--rows", "triplet,bayes-gauss"),
}
FEW_GLYPHS = {"classes": 40, "per_class": 8, "foreign": 12}
MINUTES = {"demo", "figures"}  # these are not run
ENGINES = {"pgvector://": parse_pgvector, "milvus://": parse_milvus}
SHELL = {"PWD", "OLDPWD", "SHLVL", "_", "PATH", "HOME", "FAILED", "REMEMBERED"}


def check(call: Call) -> Done:
    """The command and its options exist, and have values of their kind."""
    try:
        _parse(call.words[1:])
        for url in _servers(call.words):
            ENGINES[url.partition("//")[0] + "//"](url)
    except typer.Exit:
        pass  # --help
    except SurefindError as error:
        return Done(1, "", str(error))
    except Exception as error:  # wrong usage: typer has a click of its own, or not
        if not hasattr(error, "format_message"):
            raise
        return Done(2, "", error.format_message())
    return Done(0, "", "")


def _parse(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Name of the command, and the values of its parameters."""
    from surefind.cli.commands import app

    group = typer.main.get_command(app)
    context = group.make_context("surefind", list(words))
    name = ""
    while hasattr(group, "commands"):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return name, {}  # such as --install-completion
        _, group, rest = group.resolve_command(context, rest)
        name = name or group.name
        context = group.make_context(group.name, rest, parent=context)
    return name, context.params


def _servers(words: Sequence[str]) -> list[str]:
    return [word for word in words if word.startswith(tuple(ENGINES))]


class InProcess:
    """The one that `surefind` in a shell block means."""

    def __init__(
        self,
        run: Surefind,
        world: World,
        *,
        monkeypatch: pytest.MonkeyPatch,
        port: int,
    ) -> None:
        self.run, self.world, self.monkeypatch = run, world, monkeypatch
        self.served = Serving(port)

    def __call__(self, call: Call) -> Done:
        words = call.words[1:]
        if "--help" in words or words[:1] == ["--version"]:
            return self._really(call, words)
        if (checked := check(call)).code:
            return checked
        name, given = _parse(words)
        away = name == "push" and not given.get("dry_run")  # to a hub
        if _servers(words) or away or name in {*MINUTES, ""}:
            self._stand_in(name, call.folder, given)
            return checked
        return self._really(call, [*words, *SHORTER.get(name, ())])

    def _really(self, call: Call, words: Sequence[str]) -> Done:
        with self.monkeypatch.context() as patch:
            patch.chdir(call.folder)
            for key in call.environment.keys() - SHELL:
                patch.setenv(key, call.environment[key])
            patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(call.stdin)))
            patch.setattr(server, "serve", self.served.start)
            return self.run(*words)

    def _stand_in(self, name: str, folder: Path, given: dict[str, Any]) -> None:
        """What later lines expect of a command that was not run."""
        if name == "demo":
            place = folder / (given.get("output") or "demo")
            for made in ("model", "index", "report"):
                if not (place / made).exists():
                    shutil.copytree(getattr(self.world, made), place / made)
            shutil.copytree(folder / "queries", place / "queries", dirs_exist_ok=True)
        elif name == "index" and not (folder / given["output"]).exists():
            shutil.copytree(self.world.index, folder / given["output"])


class Serving:
    """One service at a time, at the port that stands for 8000."""

    def __init__(self, port: int) -> None:
        self.port, self.now = port, ExitStack()

    def start(
        self, index: Index, settings: Settings, *, told: Callable[[str], None] = lambda _: None
    ) -> None:
        self.now.close()
        here = replace(settings, host="127.0.0.1", port=self.port)
        self.now.enter_context(served(index, **vars(here)))
        told(f"http://127.0.0.1:{self.port}")


def _blank(draw: Callable[[Figure, str], bytes]) -> Callable[[Figure, str], bytes]:
    @cache
    def drawn(ending: str) -> bytes:
        return draw(Figure((1, 1)), ending)

    return lambda _, ending: drawn(ending)


@contextmanager
def made_small(world: World) -> Iterator[None]:
    """Every recipe trains for seconds, once it was found to be right; glyphs are few.

    Figures are blank and intervals rough: reports have tests of their own.
    """
    read = Recipe.read.__func__

    def read_short(cls: type[Recipe], source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
        second = ["variance.steps=2"] if read(cls, source, overrides).variance.steps else []
        return read(cls, source, [*overrides, *SHORT, *second])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recipe, "read", classmethod(read_short))
        patch.setattr(saving, "_content", _blank(saving._content))
        patch.setattr(intervals, "RESAMPLES", 50)
        for name, number in FEW_GLYPHS.items():
            patch.setitem(glyphs.draw_glyphs.__kwdefaults__, name, number)
        patch.setenv("SUREFIND_CACHE", str(world.made / "cache"))
        yield
