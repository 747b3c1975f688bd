"""surefind doctor: examine packages, machine, disk, vector stores and extras."""

import json
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from typer import Exit, Option, echo, style

import surefind as sf
from surefind.cli.options import JsonOption

CGROUP = Path("/sys/fs/cgroup")
LEAST_MEMORY, LEAST_SPACE = 2 * 2**30, 2**30  # bytes; enough to train a small encoder
TIMEOUT_SECONDS = 3  # of a server
MODULES = {"scikit-learn": "sklearn", "pillow": "PIL", "faiss-cpu": "faiss"}  # package: module
SERVERS = {"pgvector": "pgvector://user@host/database", "milvus": "milvus://host:19530"}
FOLDERS = {  # what to do if it cannot be written to
    "current folder": "work in a folder that you may write to",
    "temporary files": "export TMPDIR=FOLDER",
    "cache": "export SUREFIND_CACHE=FOLDER",
    "model hub cache": "export HF_HOME=FOLDER",
}
MARKS = {"ok": ("ok", "green"), "absent": ("--", "bright_black"), "warning": ("!!", "yellow"), "error": ("FAIL", "red")}


class Finding(NamedTuple):
    """One examined thing. Only the state `error` makes the command fail; `absent` is optional."""

    state: Literal["ok", "absent", "warning", "error"]
    detail: str
    fix: str = ""


Look = Callable[[], Finding | str]  # text if it is fine


def doctor(
    engine: Annotated[
        list[str] | None, Option(help="A server to connect to: pgvector://... or milvus://... Repeatable.")
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
    from surefind.text import printable

    groups, failed = checks(engine or ()), []
    width = max(len(name) for looks in groups.values() for name in looks)
    written: dict[str, list[dict[str, str]]] = {}
    for group, looks in groups.items():
        written[group] = []
        if not as_json:
            echo(style(group, bold=True))
        for name, look in looks.items():
            if not as_json:  # what is examined now, which may take seconds
                print(f"  {name:{width}}  ", end="", flush=True)
            found = examine(name, look)
            written[group].append({"name": name} | found._asdict())
            failed += [name] if found.state == "error" else []
            if not as_json:
                mark, colour = MARKS[found.state]
                echo(f"{style(f'{mark:4}', fg=colour)}  {printable(found.detail)}")
                if found.fix:
                    print(f"{'':{width + 10}}fix: {printable(found.fix)}")
    if as_json:
        print(json.dumps({"ok": not failed} | written))
    else:
        print(f"failed: {', '.join(failed)}" if failed else "everything required works")
    if failed:
        raise Exit(1)


def examine(name: str, look: Look) -> Finding:
    """Return what is found; an error is a finding."""
    try:
        detail = look()
    except sf.SurefindError as error:
        return Finding("error", error.problem, error.fix or "")
    except Exception as error:  # noqa: BLE001  # a broken package may raise anything
        message = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        fix = f"pip install --force-reinstall {name}" if name in required() else ""
        return Finding("error", message.removesuffix(": "), fix)
    return Finding("ok", detail) if isinstance(detail, str) else detail


def checks(urls: Sequence[str] = ()) -> dict[str, dict[str, Look]]:
    """Return all checks by group; `urls` are servers to connect to."""
    import platform

    from surefind.engines.registry import without_password

    servers: dict[str, Look] = {without_password(url): partial(_server, url) for url in urls}
    hint = "not tested: surefind doctor --engine "
    untested: dict[str, Look] = {scheme: partial(Finding, "absent", hint + form) for scheme, form in SERVERS.items()}
    return {
        "packages": {
            "python": platform.python_version,
            "surefind": lambda: sf.__version__,
            **{name: partial(_imported, name) for name in required()},
        },
        "machine": {
            "system": lambda: f"{platform.system()} {platform.release()}, {platform.machine()}",
            "cores": _cores,
            "memory": _memory,
            "device": _device,
        },
        "folders": {name: partial(_folder, name) for name in FOLDERS},
        "engines": servers or untested,
        "extras": {name: partial(_extra, name) for name in extras()},
    }


def extras() -> list[str]:
    """Return the optional parts of surefind."""
    from importlib import metadata

    known = metadata.metadata("surefind").get_all("Provides-Extra") or []
    return [name for name in known if name != "dev"]


def required(extra: str | None = None) -> list[str]:
    """Return the packages that surefind, or one of its extras, requires."""
    from importlib import metadata

    found = []
    for line in metadata.requires("surefind") or ():
        marker = re.search(r"extra == ['\"](.+?)['\"]", line)
        if (marker and marker[1]) == extra:
            found.append(re.split(r"[^\w-]", line, maxsplit=1)[0])
    return found


def _imported(name: str) -> str:
    from importlib import metadata

    if name in ("timm", "torchvision"):
        from surefind.encoders.backbone import import_torchvision

        import_torchvision()  # a torchvision that does not fit this torch would break timm
    import_module(MODULES.get(name, name.replace("-", "_")))
    return metadata.version(name)


def _extra(name: str) -> Finding | str:
    """Return the installed versions, or the command that installs what is missing."""
    from importlib import metadata

    versions, missing = [], []
    for package in required(name):
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            missing.append(package)
    if missing:
        return Finding("absent", f"{', '.join(missing)} not installed", f"pip install 'surefind[{name}]'")
    return ", ".join(versions)


def _cores() -> Finding | str:
    import torch

    from surefind.images.loader import usable_cores

    usable, threads = usable_cores(), torch.get_num_threads()
    detail, best = f"{usable} of {os.cpu_count()} usable", usable
    if limit := re.match(r"(\d+) (\d+)", _container_limit("cpu.max")):
        allowed = int(limit[1]) / int(limit[2])
        detail, best = f"{detail}, container limit {allowed:.3g}", min(usable, round(allowed) or 1)
    detail += f"; torch uses {threads}"
    if threads > best:
        return Finding("warning", f"{detail}, too many", f"export OMP_NUM_THREADS={best}")
    return detail


def _memory() -> Finding:
    from rich.filesize import decimal

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    detail, limit = decimal(memory), _container_limit("memory.max")
    if limit.isdigit() and int(limit) < memory:
        memory = int(limit)
        detail += f"; container limit {decimal(memory)}"
    return Finding("ok" if memory >= LEAST_MEMORY else "warning", detail)


def _device() -> str:
    import torch

    if torch.cuda.is_available():
        return ", ".join(map(torch.cuda.get_device_name, range(torch.cuda.device_count())))
    return "no GPU; everything works on the CPU"


def _container_limit(name: str) -> str:
    """Return a limit of cgroup v2; empty if there is none."""
    try:
        return (CGROUP / name).read_text().strip()
    except OSError:
        return ""


def _folder(name: str) -> Finding:
    """Examine a folder that is written to, or the nearest parent that exists."""
    import shutil
    import tempfile

    from huggingface_hub.constants import HF_HOME
    from rich.filesize import decimal

    from surefind.datasets.glyphs import glyphs_folder

    places = (Path.cwd(), Path(tempfile.gettempdir()), glyphs_folder().parent, Path(HF_HOME))
    folder = dict(zip(FOLDERS, places, strict=True))[name]
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding("warning", f"{folder}: {there} cannot be written to", FOLDERS[name])
    free = shutil.disk_usage(there).free
    return Finding("ok" if free >= LEAST_SPACE else "warning", f"{folder}, {decimal(free)} free")


def _server(url: str) -> str:
    scheme, _, rest = url.partition("://")
    if scheme not in SERVERS or not rest:
        expected = " or ".join(SERVERS.values())
        raise sf.InvalidArgument("--engine", expected=expected, got="another URL")
    engine = import_module(f"surefind.engines.{scheme}.engine")
    return f"answers: {engine.describe_server(url, seconds=TIMEOUT_SECONDS)}"
