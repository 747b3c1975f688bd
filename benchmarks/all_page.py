"""What was measured, as a page."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from all_parts import Part
from all_rows import Row
from all_running import Record

DASH = "\N{EN DASH}"
QUIET = 0.15  # cores that others may use before it is worth a warning
UNREADABLE = (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError)
HOW = {
    "quick": "**A quick run**, to see that everything works: sizes are too small for any figure to "
    "mean something, and none is judged. `make bench` measures.",
    "usual": "Made by `make bench`, which is `python benchmarks/all.py`. With `--full` it takes "
    "the longest sizes, with `--only NAME` it measures some rows again, with `--resume` it goes on "
    "where it was stopped. Each row has the command that gives it alone.",
    "full": "Made by `python benchmarks/all.py --full`.",
}
PLACES = (
    "`$DATA` is a folder of photos and weights that is not part of the repository (`--data`, "
    "`SUREFIND_DATA`), `$KEEP` a folder for embeddings, `$BIRDS` encoders trained by `surefind "
    "reproduce cub200 --scale cpu`, `$GLYPHS` one trained by `surefind train glyphs --recipe "
    "bayes-centred+glyphs`, which is trained where none is given."
)
ELSEWHERE = (
    "Promises that tests show and no stopwatch: the native ranking equals brute force "
    "(`pytest tests/engines/test_knn.py`), moments on the sphere to 1e-10 (`pytest "
    "tests/functional/test_sphere.py`), no index lost by a kill (`make faults`). The paper's "
    "tables take hours of training: `surefind reproduce`, [results](results.md)."
)


class Setting(NamedTuple):
    """What all rows have in common."""

    size: str
    ended: str  # date and time
    minutes: float  # of this run, without what is kept from earlier ones
    versions: Mapping[str, str]
    commit: str
    machine: str
    loads: tuple[float, float]  # at the start and at the end


def page(setting: Setting, parts: Sequence[Part], records: Mapping[str, Record]) -> str:
    """In Markdown; `records` by the name of the part."""
    lines = ["# Benchmarks", "", *_head(setting), "", *_warnings(setting, parts, records)]
    lines += ["| what | figure | target | met | command |", "|---|---|---|---|---|"]
    for group, some in groupby(parts, key=lambda part: part.group):
        lines.append(f"| **{group}** | | | | |")
        for part in some:
            lines += _lines_of(part, records[part.name], setting.size)
    lines += ["", PLACES, "", ELSEWHERE, "", "## How each was measured", ""]
    lines += ["| benchmark | began (UTC) | took | cores that others used | command |"]
    lines += ["|---|---|---|---|---|"]
    lines += [_how(part, records[part.name], setting.size) for part in parts]
    return "\n".join(lines) + "\n"


def rows_of(part: Part, record: Record) -> list[Row]:
    """One at least: where there is no figure, it says why."""
    if record.result is None:
        return [Row(part.about, f"{record.state}: {without_places(record.reason)}")]
    try:
        return part.rows(record.result)
    except UNREADABLE as error:
        return [Row(part.about, f"failed: no row from its figures, {error!r}")]


def without_places(text: str) -> str:
    """Paths of this machine are nobody's business.

    >>> without_places("no data: /home/me/photos/birds is missing")
    'no data: birds is missing'
    """
    return re.sub(r"(?<![\w$:.])(?:/[\w.+@-]+)+/([\w.+@-]+)", r"\1", text).replace("|", "\\|")


def times(text: str) -> str:
    """`100 x 5` with the sign for it."""
    return re.sub(r"(?<=\d) x\b", " \N{MULTIPLICATION SIGN}", text)


def _head(setting: Setting) -> list[str]:
    versions = ", ".join(f"{name} {number}" for name, number in setting.versions.items())
    code = f" (commit {setting.commit})" if setting.commit else ""
    start, end = setting.loads
    return [
        HOW[setting.size],
        "",
        f"- **When**: {setting.ended} UTC, after {setting.minutes:.0f} minutes.",
        f"- **With**: {versions}{code}.",
        f"- **On**: {setting.machine}.",
        f"- **Load average**: {start:.2f} at the start, {end:.2f} at the end, when it is our own.",
        "- Everything in a row was measured side by side, in turns; trust ratios more than times.",
    ]


def _warnings(setting: Setting, parts: Sequence[Part], records: Mapping[str, Record]) -> list[str]:
    busy = [
        f"{part.name} ({others:.1f})"
        for part in parts
        if (others := records[part.name].others) is not None and others > QUIET
    ]
    found = []
    if setting.loads[0] > 0.5:
        found.append(f"a load average of {setting.loads[0]:.2f} before anything was measured")
    if busy:
        found.append(f"cores in use by others while these ran: {', '.join(busy)}")
    if not found:
        return []
    return [f"> **The machine was not idle**: {'; '.join(found)}. Figures may be off.", ""]


def _lines_of(part: Part, record: Record, size: str) -> list[str]:
    lines, command = [], f"`{part.shown(size)}`"
    for row in rows_of(part, record):
        what = f"… {row.what.strip()}" if row.what.startswith(" ") else row.what
        met = _met(row, record, size)
        cells = [times(cell) or DASH for cell in (what, row.figure, row.target)]
        lines.append(f"| {' | '.join(cells)} | {met} | {command} |")
        command = "the same"
    return lines


def _met(row: Row, record: Record, size: str) -> str:
    if record.result is None:
        return "not measured"
    if row.met is None or size == "quick":
        return DASH
    return "yes" if row.met else "**no**"


def _how(part: Part, record: Record, size: str) -> str:
    began = record.began.replace("T", " ")[:16] or DASH
    took = f"{record.seconds / 60:.1f} min" if record.began else DASH
    others = DASH if record.others is None else f"{record.others:.2f}"
    return f"| {part.name} | {began} | {took} | {others} | `{part.shown(size)}` |"
