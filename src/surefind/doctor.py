"""Examine packages, machine, disk, engines and extras: the findings of `surefind doctor`."""

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Literal, NamedTuple

import surefind
from surefind.engines.registry import is_url, without_password
from surefind.errors import InvalidArgument, SurefindError

CGROUP = Path("/sys/fs/cgroup")
LEAST_MEMORY, LEAST_ROOM = 2 * 2**30, 2**30  # bytes; a small encoder can be trained in these
SECONDS_TO_ANSWER = 3
MODULES = {"scikit-learn": "sklearn", "pillow": "PIL", "faiss-cpu": "faiss"}  # names unlike pip's
EXTRAS = {
    "serve": "surefind serve",
    "onnx": "surefind export --onnx, --runtime onnx",
    "pgvector": "--engine pgvector://",
    "milvus": "--engine milvus://",
    "tensorboard": "curves of training in TensorBoard",
    "parquet": "tables in .parquet files",
    "docs": "the documentation's site",
}
SERVERS = {"pgvector": "pgvector://user@host/database", "milvus": "milvus://host:19530"}


class Finding(NamedTuple):
    """What was examined, its state, what was seen, and what to do about it.

    `absent` is something that is not needed, `poor` something that will be in the way; only
    `broken` is a reason to stop.
    """

    what: str
    state: Literal["fine", "absent", "poor", "broken"]
    seen: str
    fix: str = ""


def examine(urls: Sequence[str] = ()) -> dict[str, list[Finding]]:
    """Return all findings by group; `urls` are engine servers to connect to."""
    return {
        "packages": packages(),
        "machine": machine(),
        "places": places(),
        "engines": engines(urls),
        "extras": extras(),
    }


def attempt(what: str, look: Callable[[], Finding | str], *, fix: str) -> Finding:
    """Return the finding of `look`, or its error as a finding."""
    try:
        seen = look()
    except SurefindError as error:
        return Finding(what, "broken", error.problem, error.fix or "")
    except Exception as error:  # noqa: BLE001  # whatever is wrong with a package is the finding
        said = next(iter(str(error).splitlines()), "")
        return Finding(what, "broken", f"{type(error).__name__}: {said}".removesuffix(": "), fix)
    return Finding(what, "fine", seen) if isinstance(seen, str) else seen


def packages() -> list[Finding]:
    """Import every required package."""
    return [
        Finding("python", "fine", platform.python_version()),
        Finding("surefind", "fine", surefind.__version__),
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

        import_torchvision()  # where it does not fit this torch, timm loads only after this
    import_module(MODULES.get(name, name.replace("-", "_")))
    return metadata.version(name)


def extras() -> list[Finding]:
    """List each extra with the versions that are installed, or the command that installs it."""
    found = []
    for name, purpose in EXTRAS.items():
        versions, missing = [], []
        for package in required(name):
            try:
                versions.append(f"{package} {metadata.version(package)}")
            except metadata.PackageNotFoundError:
                missing.append(package)
        if missing:
            seen, fix = f"{', '.join(missing)} not installed", f"pip install 'surefind[{name}]'"
            found.append(Finding(name, "absent", f"{seen}; for {purpose}", fix))
        else:
            found.append(Finding(name, "fine", ", ".join(versions)))
    return found


def machine() -> list[Finding]:
    """Examine cores, threads, memory and devices."""
    again = "pip install --force-reinstall torch"
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return [
        Finding("system", "fine", system),
        attempt("cores", _cores, fix=again),
        attempt("memory", _memory, fix="report it: this system describes itself in an unknown way"),
        attempt("device", _device, fix=again),
    ]


def _cores() -> Finding | str:
    import torch

    usable, threads = os.cpu_count() or 1, torch.get_num_threads()
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    seen = f"{usable} of {os.cpu_count()} usable"
    most: float = usable
    if limit := re.match(r"(\d+) (\d+)", _allowed("cpu.max")):
        most = int(limit[1]) / int(limit[2])
        seen += f", the container allows the time of {most:.3g}"
    seen += f"; torch uses {threads} thread{'s' if threads > 1 else ''}"
    best = max(1, min(usable, round(most)))
    if threads > best:
        return Finding("cores", "poor", f"{seen}, more than that", f"export OMP_NUM_THREADS={best}")
    return seen


def _memory() -> Finding | str:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    seen, limit = _size(whole), _allowed("memory.max")
    if limit.isdigit() and int(limit) < whole:
        whole = int(limit)
        seen += f"; the container allows {_size(whole)}"
    if whole < LEAST_MEMORY:
        return Finding("memory", "poor", seen, "allow the container more, or use another machine")
    return seen


def _device() -> str:
    import torch

    if torch.cuda.is_available():
        return ", ".join(map(torch.cuda.get_device_name, range(torch.cuda.device_count())))
    if torch.backends.mps.is_available():
        return "Apple GPU (mps); surefind uses the cores"
    return "no GPU; everything works on the cores"


def _allowed(name: str) -> str:
    """Return a limit of the container (cgroup v2); empty if there is none."""
    try:
        return (CGROUP / name).read_text().strip()
    except OSError:
        return ""


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def places() -> list[Finding]:
    """Examine the folders that are written to."""
    from huggingface_hub.constants import HF_HOME

    from surefind.datasets.glyphs import glyphs_folder

    known = {
        "this folder": (Path.cwd(), "work in a folder that you may write to"),
        "temporary files": (Path(tempfile.gettempdir()), "export TMPDIR=FOLDER"),
        "drawn glyphs": (glyphs_folder().parent, "export SUREFIND_CACHE=FOLDER"),
        "weights of the hub": (Path(HF_HOME), "export HF_HOME=FOLDER"),
    }
    return [
        attempt(what, partial(_place, what, folder, fix), fix=fix)
        for what, (folder, fix) in known.items()
    ]


def _place(what: str, folder: Path, fix: str) -> Finding | str:
    """Examine a folder; one that is not there is made when it is needed."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(what, "poor", f"{folder}: {there} cannot be written to", fix)
    free = shutil.disk_usage(there).free
    seen = f"{folder}, {_size(free)} free"
    if free < LEAST_ROOM:
        return Finding(what, "poor", seen, "free some space, or work on another disk")
    return seen


def engines(urls: Sequence[str] = ()) -> list[Finding]:
    """Load faiss and connect to each server that was named."""
    again = "pip install --force-reinstall faiss-cpu numpy"
    found = [attempt("faiss", partial(_imported, "faiss-cpu"), fix=again)]
    asked = [url.partition("://")[0] for url in urls]
    for scheme, url in zip(asked, urls, strict=True):
        what = scheme if scheme in SERVERS else "engine"
        found.append(attempt(what, partial(_server, url), fix="see the server's log"))
    return found + [
        Finding(scheme, "absent", f"not asked: surefind doctor --engine {form}")
        for scheme, form in SERVERS.items()
        if scheme not in asked
    ]


def _server(url: str) -> str:
    scheme = url.partition("://")[0]
    if not is_url(url) or scheme not in SERVERS:
        raise InvalidArgument(
            "--engine",
            expected=" or ".join(SERVERS.values()),
            got=repr(without_password(url)),
        )
    engine = import_module(f"surefind.engines.{scheme}.engine")
    seen = engine.describe_server(url, seconds=SECONDS_TO_ANSWER)
    return f"{without_password(url)} answers: {seen}"
