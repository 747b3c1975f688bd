"""Cores, threads, memory and devices."""

import os
import platform
from pathlib import Path

from surefind.doctor.finding import Finding, fine, tried
from surefind.doctor.limits import cores_allowed, memory_left

MEMINFO = Path("/proc/meminfo")
LEAST_MEMORY = 2 * 2**30  # bytes, in which a small encoder can be trained
AGAIN = "pip install --force-reinstall torch"


def machine() -> list[Finding]:
    """What there is to work with."""
    return [
        fine("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        tried("cores", _cores, fix=AGAIN),
        tried("memory", _memory, fix="tell us: this machine describes itself in an unknown way"),
        tried("device", _device, fix=AGAIN),
    ]


def usable_cores() -> int:
    """That this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cores() -> Finding:
    import torch

    usable, threads, allowed = usable_cores(), torch.get_num_threads(), cores_allowed()
    seen = f"{usable} of {os.cpu_count()} usable"
    if allowed is not None:
        seen += f", the container allows the time of {allowed:.3g}"
    seen += f"; torch uses {threads} thread{'s' if threads > 1 else ''}"
    most = max(1, min(usable, round(allowed) if allowed else usable))
    if threads > most:
        return Finding("cores", "poor", f"{seen}, more than that", f"export OMP_NUM_THREADS={most}")
    return fine("cores", seen)


def _memory() -> Finding:
    facts = {}
    for line in MEMINFO.read_text().splitlines() if MEMINFO.is_file() else ():
        name, _, value = line.partition(":")
        facts[name] = int(value.split()[0]) * 1024
    whole, free = facts.get("MemTotal"), facts.get("MemAvailable")
    if whole is None:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    seen = f"{size(whole)}" + (f", {size(free)} available" if free is not None else "")
    limit = memory_left()
    if limit is not None and limit[0] < whole:
        seen += f"; the container allows {size(limit[0])}, {size(limit[1])} of it left"
    left = min([free or whole, *([limit[1]] if limit else [])])
    if left < LEAST_MEMORY:
        return Finding("memory", "poor", seen, "end other programs, or allow the container more")
    return fine("memory", seen)


def _device() -> Finding:
    import torch

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        return fine("device", ", ".join(names))
    if torch.backends.mps.is_available():
        return fine("device", "Apple GPU (mps); surefind uses the cores")
    return fine("device", "no GPU; everything works on the cores")


def size(count: int) -> str:
    """In gigabytes, or megabytes if it is less than one.

    >>> size(24 * 2**30), size(300 * 2**20)
    ('24.0 GB', '300 MB')
    """
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"
