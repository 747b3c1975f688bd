"""What a run is measured on and with: packages, processor, code, and who else is at work."""

import os
import platform
import re
import resource
import subprocess
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import which

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "surefind", "torch", "numpy", "faiss-cpu", "onnxruntime", "pytorch-metric-learning", "timm",
)  # fmt: skip


def versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def machine() -> str:
    """Processor, cores and memory; nothing that names the machine itself."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {_cores()} cores, {memory:.0f} GB of memory, {platform.system()}"


def code() -> str:
    """Changes with any line that is measured; the table may be laid out anew without that."""
    seen = sha256()
    measuring = (p for p in (ROOT / "benchmarks").glob("*.py") if not p.name.startswith("all"))
    for path in sorted([*(ROOT / "src").rglob("*.py"), *measuring]):
        seen.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return seen.hexdigest()


def commit() -> str:
    """Where there is a repository; the empty text elsewhere."""
    git = which("git")
    if git is None:
        return ""

    def asked(*words: str) -> str:
        done = subprocess.run(  # noqa: S603
            [git, *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = asked("status", "--porcelain", "--", "src", "benchmarks")
    return asked("rev-parse", "--short", "HEAD") + (", with changes" if changed else "")


def load() -> float:
    """Processes that wanted a core, over the last minute."""
    return os.getloadavg()[0]


def busy() -> float | None:
    """Seconds of all cores that anything but us and our children has used (Linux)."""
    try:
        first = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return None
    user, nice, system, _, _, *rest = (int(ticks) for ticks in first.split()[1:9])
    ours = sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    )
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK") - ours


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
