"""surefind doctor: examine packages, machine, disk, vector stores and extras."""

import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from typer import Exit, Option

import surefind
from surefind.cli.options import JsonOption
from surefind.errors import InvalidArgument, SurefindError

CGROUP = Path("/sys/fs/cgroup")
LEAST_MEMORY, LEAST_SPACE = 2 * 2**30, 2**30  # bytes; enough to train a small encoder
TIMEOUT_SECONDS = 3  # of a server
MODULES = {"scikit-learn": "sklearn", "pillow": "PIL", "faiss-cpu": "faiss"}  # package: module
EXTRAS = {
    "serve": "surefind serve",
    "onnx": "surefind export --onnx, --runtime onnx",
    "pgvector": "--engine pgvector://",
    "milvus": "--engine milvus://",
    "tensorboard": "training curves in TensorBoard",
    "heic": "HEIC images, as iPhones save them",
    "parquet": "tables in .parquet files",
    "docs": "the documentation site",
}
SERVERS = {"pgvector": "pgvector://user@host/database", "milvus": "milvus://host:19530"}
MARKS = {  # text and style of each state
    "ok": ("ok", "green"),
    "absent": ("--", "dim"),
    "warning": ("!!", "yellow"),
    "error": ("FAIL", "bold red"),
}


class Finding(NamedTuple):
    """One examined thing. Only the state `error` makes the command fail; `absent` is optional."""

    name: str
    state: Literal["ok", "absent", "warning", "error"]
    detail: str
    fix: str = ""


def doctor(
    engine: Annotated[
        list[str] | None,
        Option(help="A server to connect to: pgvector://... or milvus://... Repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Examine packages, machine, disk, vector stores and extras; print what is missing.

    Exit code 1 if something required, or a server given by --engine, does not work.

    Examples:
        surefind doctor
        surefind doctor --engine pgvector://me@localhost/photos
        surefind doctor --json
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from surefind.cli.output import PREVIEW_WIDTH, can_show
    from surefind.text import printable

    groups = examine(engine or ())
    console = Console(highlight=False)
    needs = f"{PREVIEW_WIDTH} columns, true colour (COLORTERM=truecolor) and Unicode"
    groups["machine"].append(
        Finding("terminal", "ok", "shows previews of images")
        if can_show(console)
        else Finding("terminal", "absent", f"no previews of images: they need {needs}")
    )
    findings = [finding for found in groups.values() for finding in found]
    failed = [finding.name for finding in findings if finding.state == "error"]
    if as_json:
        written = {name: [each._asdict() for each in found] for name, found in groups.items()}
        print(json.dumps({"ok": not failed} | written))
        raise Exit(int(bool(failed)))
    width = max(len(finding.name) for finding in findings)  # aligned over all groups
    for name, found in groups.items():
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=4)
        table.add_column(width=width)
        table.add_column(overflow="fold")
        for each in found:
            detail = Text(printable(each.detail))
            if each.fix:
                detail.append(f"\nfix: {printable(each.fix)}", style="italic")
            table.add_row(Text(*MARKS[each.state]), Text(each.name), detail)
        console.print(Text(name, style="bold"))
        console.print(Padding(table, (0, 0, 1, 2), expand=False))
    print(f"failed: {', '.join(failed)}" if failed else "everything required works")
    if failed:
        raise Exit(1)


def examine(urls: Sequence[str] = ()) -> dict[str, list[Finding]]:
    """Return all findings by group; `urls` are servers to connect to."""
    return {
        "packages": packages(),
        "machine": machine(),
        "folders": folders(),
        "engines": engines(urls),
        "extras": extras(),
    }


def attempt(name: str, look: Callable[[], Finding | str], *, fix: str) -> Finding:
    """Return the finding of `look`, or its error as a finding."""
    try:
        detail = look()
    except SurefindError as error:
        return Finding(name, "error", error.problem, error.fix or "")
    except Exception as error:  # noqa: BLE001  # a broken package may raise anything
        message = next(iter(str(error).splitlines()), "")
        return Finding(name, "error", f"{type(error).__name__}: {message}".removesuffix(": "), fix)
    return Finding(name, "ok", detail) if isinstance(detail, str) else detail


def packages() -> list[Finding]:
    """Import every required package."""
    return [
        Finding("python", "ok", platform.python_version()),
        Finding("surefind", "ok", surefind.__version__),
        *(
            attempt(name, partial(_imported, name), fix=f"pip install --force-reinstall {name}")
            for name in required()
        ),
    ]


def required(extra: str | None = None) -> list[str]:
    """Return the packages that surefind, or one of its extras, requires."""
    found = []
    for line in metadata.requires("surefind") or ():
        marker = re.search(r"extra == ['\"](.+?)['\"]", line)
        if (marker and marker[1]) == extra:
            found.append(re.split(r"[^\w-]", line, maxsplit=1)[0])
    return found


def _imported(name: str) -> str:
    if name in ("timm", "torchvision"):
        from surefind.encoders.backbone import import_torchvision

        import_torchvision()  # a torchvision that does not fit this torch would break timm
    import_module(MODULES.get(name, name.replace("-", "_")))
    return metadata.version(name)


def extras() -> list[Finding]:
    """List each extra with the installed versions, or the command that installs it."""
    found = []
    for name, purpose in EXTRAS.items():
        versions, missing = [], []
        for package in required(name):
            try:
                versions.append(f"{package} {metadata.version(package)}")
            except metadata.PackageNotFoundError:
                missing.append(package)
        if missing:
            detail, fix = f"{', '.join(missing)} not installed", f"pip install 'surefind[{name}]'"
            found.append(Finding(name, "absent", f"{detail}; for {purpose}", fix))
        else:
            found.append(Finding(name, "ok", ", ".join(versions)))
    return found


def machine() -> list[Finding]:
    """Examine cores, threads, memory and devices."""
    reinstall = "pip install --force-reinstall torch"
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return [
        Finding("system", "ok", system),
        attempt("cores", _cores, fix=reinstall),
        attempt("memory", _memory, fix="please report it: the memory of this system is unknown"),
        attempt("device", _device, fix=reinstall),
    ]


def _cores() -> Finding | str:
    import torch

    usable, threads = os.cpu_count() or 1, torch.get_num_threads()
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    detail = f"{usable} of {os.cpu_count()} usable"
    allowed: float = usable
    if limit := re.match(r"(\d+) (\d+)", _container_limit("cpu.max")):
        allowed = int(limit[1]) / int(limit[2])
        detail += f", container limit {allowed:.3g}"
    detail += f"; torch uses {threads} thread{'s' if threads > 1 else ''}"
    best = max(1, min(usable, round(allowed)))
    if threads > best:
        return Finding("cores", "warning", f"{detail}, too many", f"export OMP_NUM_THREADS={best}")
    return detail


def _memory() -> Finding | str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    detail, limit = _size(memory), _container_limit("memory.max")
    if limit.isdigit() and int(limit) < memory:
        memory = int(limit)
        detail += f"; container limit {_size(memory)}"
    if memory < LEAST_MEMORY:
        return Finding("memory", "warning", detail, "raise the limit, or use another machine")
    return detail


def _device() -> str:
    import torch

    if torch.cuda.is_available():
        return ", ".join(map(torch.cuda.get_device_name, range(torch.cuda.device_count())))
    if torch.backends.mps.is_available():
        return "Apple GPU (mps); surefind uses the CPU"
    return "no GPU; everything works on the CPU"


def _container_limit(name: str) -> str:
    """Return a limit of cgroup v2; empty if there is none."""
    try:
        return (CGROUP / name).read_text().strip()
    except OSError:
        return ""


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def folders() -> list[Finding]:
    """Examine the folders that are written to."""
    from huggingface_hub.constants import HF_HOME

    from surefind.datasets.glyphs import glyphs_folder

    known = {
        "current folder": (Path.cwd(), "work in a folder that you may write to"),
        "temporary files": (Path(tempfile.gettempdir()), "export TMPDIR=FOLDER"),
        "cache": (glyphs_folder().parent, "export SUREFIND_CACHE=FOLDER"),
        "model hub cache": (Path(HF_HOME), "export HF_HOME=FOLDER"),
    }
    return [
        attempt(name, partial(_folder, name, folder, fix), fix=fix)
        for name, (folder, fix) in known.items()
    ]


def _folder(name: str, folder: Path, fix: str) -> Finding | str:
    """Examine a folder, or the nearest parent that exists."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(name, "warning", f"{folder}: {there} cannot be written to", fix)
    free = shutil.disk_usage(there).free
    detail = f"{folder}, {_size(free)} free"
    if free < LEAST_SPACE:
        return Finding(name, "warning", detail, "free some space, or work on another disk")
    return detail


def engines(urls: Sequence[str] = ()) -> list[Finding]:
    """Load faiss and connect to each given server."""
    reinstall = "pip install --force-reinstall faiss-cpu numpy"
    found = [attempt("faiss", partial(_imported, "faiss-cpu"), fix=reinstall)]
    for url in urls:
        scheme = url.partition("://")[0]
        name = scheme if scheme in SERVERS else "engine"
        found.append(attempt(name, partial(_server, scheme, url), fix="see the server's log"))
    named = {finding.name for finding in found}
    return found + [
        Finding(scheme, "absent", f"not tested: surefind doctor --engine {form}")
        for scheme, form in SERVERS.items()
        if scheme not in named
    ]


def _server(scheme: str, url: str) -> str:
    from surefind.engines.registry import is_url, without_password

    shown = without_password(url)
    if not is_url(url) or scheme not in SERVERS:
        expected = " or ".join(SERVERS.values())
        raise InvalidArgument("--engine", expected=expected, got=repr(shown))
    engine = import_module(f"surefind.engines.{scheme}.engine")
    return f"{shown} answers: {engine.describe_server(url, seconds=TIMEOUT_SECONDS)}"
