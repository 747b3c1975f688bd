"""surefind doctor: what this machine can do, and what is missing."""

import json
import os
import platform
import shutil
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

PACKAGES = ("torch", "torchvision", "timm", "numpy", "pillow", "safetensors", "faiss-cpu")
OPTIONAL = {  # a module, and what asks for it
    "fastapi": "surefind[serve]",
    "onnxruntime": "surefind[onnx]",
    "psycopg": "surefind[pgvector]",
    "pymilvus": "surefind[milvus]",
    "tensorboard": "surefind[tensorboard]",
    "pyarrow": "Parquet tables: pip install pyarrow",
}


class Finding(NamedTuple):
    """One line: what was looked at, whether it is as it should be, and what was seen."""

    what: str
    fine: bool
    seen: str


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look at packages, cores, memory and fonts; exit with 1 if something needed is missing."""
    findings = [_try(what, look) for what, look in CHECKS.items()]
    optional = [Finding(name, _has(name), hint) for name, hint in OPTIONAL.items()]
    if as_json:
        print(
            json.dumps(
                {
                    "needed": [finding._asdict() for finding in findings],
                    "optional": [finding._asdict() for finding in optional],
                }
            )
        )
    else:
        for finding in findings:
            print(f"{'ok  ' if finding.fine else 'FAIL'}  {finding.what}: {finding.seen}")
        for finding in optional:
            state = "installed" if finding.fine else f"not installed ({finding.seen})"
            print(f"  --  {finding.what}: {state}")
    if not all(finding.fine for finding in findings):
        raise typer.Exit(1)


def _try(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except Exception as error:  # noqa: BLE001  # whatever is wrong with a package is the finding
        return Finding(what, False, f"{type(error).__name__}: {error}")


def _has(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def _packages() -> str:
    return ", ".join(f"{name} {_version(name)}" for name in PACKAGES)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        raise RuntimeError(f"{name} is not installed: pip install {name}") from None


def _threads() -> str:
    import torch

    memory = ""
    if hasattr(os, "sysconf"):
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') >> 30} GB of memory"
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    return f"{torch.get_num_threads()} threads{memory}, {gpu}"


def _timm() -> str:
    from surefind.encoders.backbone import known_backbones

    return f"{len(known_backbones())} backbones"


def _faiss() -> str:
    return f"faiss {import_module('faiss').__version__}"


def _fonts() -> str:
    import matplotlib

    fonts = list((Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob("*.ttf"))
    if not fonts:
        raise RuntimeError("matplotlib has no font files; the built-in glyphs need them")
    return f"{len(fonts)} font files for the built-in glyphs"


def _space() -> str:
    return f"{shutil.disk_usage(Path.cwd()).free >> 30} GB free in this folder"


CHECKS: dict[str, Callable[[], str]] = {
    "python": platform.python_version,
    "packages": _packages,
    "machine": _threads,
    "backbones": _timm,
    "search": _faiss,
    "fonts": _fonts,
    "disk": _space,
}
