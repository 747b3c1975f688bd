"""What a container leaves of a machine: limits of Linux control groups, version 1 and 2."""

from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
UNLIMITED = 2**60  # bytes; version 1 writes a number this large for "no limit"


def cores_allowed() -> float | None:
    """CPU time per second; None without a limit."""
    limits = []
    for folder in _folders("cpu"):
        quota, *period = _words(folder / "cpu.max") or _words(folder / "cpu.cfs_quota_us") or [""]
        if not period:
            period = _words(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period and int(period[0]):
            limits.append(int(quota) / int(period[0]))
    return min(limits, default=None)


def memory_left() -> tuple[int, int] | None:
    """The limit and what is left of it, in bytes; None without a limit."""
    found = []
    for folder in _folders("memory"):
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes")
        if limit is not None and limit < UNLIMITED:
            found.append((limit, max(0, limit - (used or 0) + _reclaimable(folder))))
    return min(found, key=lambda pair: pair[1], default=None)


def _folders(controller: str) -> list[Path]:
    """Of this process's group and of those around it, as far as they can be seen."""
    found: list[Path] = []
    for line in _lines(OWN):
        _, names, group = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        root = GROUPS / controller if names else GROUPS
        place = Path(group.lstrip("/"))
        found += [root / inner for inner in (place, *place.parents)]
    return [folder for folder in dict.fromkeys(found) if folder.is_dir()]


def _reclaimable(folder: Path) -> int:
    """Copies of files, which give way when memory is wanted."""
    facts = dict(line.split(" ", 1) for line in _lines(folder / "memory.stat") if " " in line)
    return int(facts.get("inactive_file", facts.get("total_inactive_file", "0")))


def _number(path: Path) -> int | None:
    words = _words(path)
    return int(words[0]) if words and words[0].isdigit() else None


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
