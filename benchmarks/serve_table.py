"""What was measured, as lines that a person reads and as values for a file."""

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from serve_load import Pulse, Reply
from serve_phases import CLIENTS, Crowded, Flooded, stages_of

SLOWEST_HEALTH = 50  # milliseconds


class Row(NamedTuple):
    """A line of the table."""

    name: str
    figure: str
    target: str = ""
    kept: bool = True


Part = tuple[list[Row], dict[str, Any]]


def throughput(found: dict[str, list[Crowded]], bare: Sequence[float], sizes: dict[str, float]) -> Part:
    rates = {name: [one.rate for one in some] for name, some in found.items()}
    ratios = {
        name: [ours / theirs for ours, theirs in zip(rates["together"], others, strict=True)]
        for name, others in rates.items()
    }
    ratios["bare encoding"] = [ours / theirs for ours, theirs in zip(rates["together"], bare, strict=True)]
    of_bare = median(ratios["bare encoding"])
    ratio, on_one = median(ratios["one by one"]), median(ratios["on one core"])
    bad = sum(reply.status != 200 for some in found.values() for one in some for reply in one.replies)
    cores = {name: median(one.service for one in some) for name, some in found.items()}
    own = median(one.own for some in found.values() for one in some)
    rows = [
        Row(f"{CLIENTS} clients, images together", f"{median(rates['together']):.1f} /s"),
        Row(f"{CLIENTS} clients, one image at a time", f"{median(rates['one by one']):.1f} /s"),
        Row("ratio, median of rounds", f"{ratio:.2f}", ">= 2", ratio >= 2),
        Row("  to one at a time on one core", f"{on_one:.2f}"),
        Row("  to bare encoding", f"{of_bare:.2f}", ">= 0.85", of_bare >= 0.85),
        Row("requests that were not answered", str(bad), "0", bad == 0),
        Row("cores: together, one at a time, asking", f"{cores['together']:.2f}, "
            f"{cores['one by one']:.2f}, {own:.2f}"),
        Row("encoded together, searched together", f"{sizes['encode']:.1f}, {sizes['search']:.1f}"),
    ]  # fmt: skip
    return rows, {"per_second": rates, "ratios": ratios, "not answered": bad,
                  "cores": cores | {"asking": own}, "together": sizes}  # fmt: skip


def health(found: dict[str, list[Crowded]]) -> Part:
    told = {name: health_of([one.pulse for one in some]) for name, some in found.items()}
    ours = told["together"]
    rows = [
        Row("/healthz meanwhile, p50", f"{ours['p50']:.1f} ms"),
        _on_time("/healthz meanwhile, p99", ours),
        Row("  so late was the asker's own clock, p99", f"{ours['own lateness, p99']:.1f} ms"),
    ]
    return rows, told


def health_of(seen: Sequence[Pulse]) -> dict[str, float]:
    late = milliseconds([value for one in seen for value in one.late])
    return {
        **milliseconds([value for one in seen for value in one.health]),
        "asked": sum(len(one.health) for one in seen),
        "failed": sum(one.failed for one in seen),
        "own lateness, p99": late["p99"],
    }


def time_spent(lone: list[Reply], found: list[Crowded]) -> Part:
    busy = stages_of([reply for one in found for reply in one.replies])
    quiet = stages_of(lone)
    outside = (quiet["wait"] + quiet["rest"]) / quiet["whole"]
    busy_outside = busy["rest"] / (busy["whole"] - busy["wait"])
    rows = [
        Row("one client: a request", _split(quiet)),
        Row("  outside decode, encode, search", f"{outside:.1%}", "<= 10 %", outside <= 0.1),
        Row(f"{CLIENTS} clients: a request", _split(busy)),
        Row("  outside them and queues", f"{busy_outside:.1%}"),
    ]
    return rows, {"one client, ms": quiet, f"{CLIENTS} clients, ms": busy, "outside": outside,
                  "outside, busy": busy_outside}  # fmt: skip


def overload(found: Flooded) -> Part:
    statuses, seen = found.statuses, found.pulse
    third = max(1, len(seen.memory) // 3)
    early, late = median(seen.memory[:third]), median(seen.memory[-third:])
    waited, told = milliseconds(found.waited), health_of([seen])
    rows = [
        Row("asked for twice that", f"{found.asked:.0f} /s for {found.seconds / 60:.1f} min"),
        Row("  answered", f"{statuses[200]:,} = {statuses[200] / found.seconds:.1f} /s"),
        Row("  their time, p50 and p99", f"{waited['p50']:,.0f} ms, {waited['p99']:,.0f} ms"),
        Row("  told to come back (503)", f"{statuses[503]:,}"),
        Row("  of these without Retry-After", str(found.without_pause), "0",
            found.without_pause == 0),
        Row("  taken but not answered, or anything else", str(found.lost), "0", found.lost == 0),
        Row("  memory, first and last third", f"{early:,.0f} MB, {late:,.0f} MB",
            "+ 5 % at most", late <= 1.05 * early),
        Row("  memory, at most", f"{max(seen.memory):,.0f} MB"),
        _on_time("  /healthz p99", told),
    ]  # fmt: skip
    memory = {"first third": early, "last third": late, "most": max(seen.memory)}
    return rows, {
        "per_second": found.asked,
        "seconds": found.seconds,
        "statuses": dict(statuses),
        "not answered because": dict(found.because),
        "refused without Retry-After": found.without_pause,
        "taken but not answered": found.lost,
        "answered, ms": waited,
        "health, ms": told,
        "memory, MB": memory | {"over time": seen.memory[:: third // 20 + 1]},
    }


def show(rows: Sequence[Row]) -> None:
    table = Table("", "measured", "target", "")
    table.columns[0].no_wrap = True
    for row in rows:
        kept = "" if not row.target else "kept" if row.kept else "[red]missed[/red]"
        table.add_row(row.name, row.figure, row.target, kept)
    Console(width=max(100, Console().width)).print(table)


def milliseconds(values: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.percentile(values, (50, 99)) if values else (np.nan, np.nan)
    return {"p50": 1000 * float(p50), "p99": 1000 * float(p99)}


def _on_time(name: str, told: dict[str, float]) -> Row:
    kept = told["p99"] < SLOWEST_HEALTH and not told["failed"]
    return Row(name, f"{told['p99']:.1f} ms", f"< {SLOWEST_HEALTH} ms", kept)


def _split(stages: dict[str, float]) -> str:
    parts = ", ".join(f"{name} {taken:.1f}" for name, taken in stages.items() if name != "whole")
    return f"{stages['whole']:.1f} ms: {parts}"
