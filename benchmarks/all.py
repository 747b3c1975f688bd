"""Every benchmark, one after the other, and one table of their results and targets.

python benchmarks/all.py [--quick | --full] [--only NAME ...] [--resume] [-o docs/benchmarks.md]

Each runs in a process of its own. What fails or lacks its data is a row that says so. Stopped by
Ctrl-C, what is done is kept and the table is written; --resume goes on from there. Figures are used
again only if code, packages and sizes are the same.
"""

import argparse
import json
import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import all_rows as rows
from all_rows import Result, Row

from surefind.storage import write_whole

HERE = Path(__file__).parent
ROOT = HERE.parent
SIZES = ("quick", "usual", "full")  # to see that all runs; for the table; what takes hours
MISSING = {
    "data": "photos and weights: name their folder with --data, or set SUREFIND_DATA",
    "birds": "encoders trained on CUB-200 (`surefind reproduce cub200`): name them with --birds",
    "glyphs": "an encoder trained on glyphs: name it with --glyphs, or leave out --quick",
}
SHOWN = {  # places, as a reader may fill them in
    "data": "$DATA",
    "keep": "$KEEP",
    "keep_onnx": "$KEEP/onnx",
    "glyphs": "$GLYPHS",
    "birds": "$BIRDS",
    "birds_test": "cub200:$DATA/cub200-2010",
    "birds_weights": "$DATA/weights/mobilenetv2_100.safetensors",
}


class Size(NamedTuple):
    """Words of a command line, with {places} in them, and how long it takes on two cores."""

    words: str
    minutes: float


class Part(NamedTuple):
    """One benchmark."""

    name: str
    group: str
    about: str  # stands in the table where there is no figure
    script: Path
    rows: Callable[[Result], list[Row]]
    sizes: Mapping[str, Size]
    needs: tuple[str, ...] = ()

    def command(self, size: str, places: Mapping[str, Sequence[str]]) -> list[str]:
        """Words after the script, each {place} filled in."""
        return [
            filled
            for word in self.sizes[size].words.split()
            for filled in (places[word[1:-1]] if word.startswith("{") else [word])
        ]

    def shown(self, size: str) -> str:
        """For a reader, without the places of this machine."""
        words = self.command(size, {name: [text] for name, text in SHOWN.items()})
        return " ".join(["python", f"benchmarks/{self.script.name}", *words])


def part(
    name: str,
    group: str,
    about: str,
    *,
    rows: Callable[[Result], list[Row]],
    quick: tuple[str, float],
    usual: tuple[str, float],
    full: tuple[str, float] | None = None,
    script: str = "",
    needs: tuple[str, ...] = (),
) -> Part:
    """`full` is the usual one where nothing longer is wanted."""
    each = zip(SIZES, (quick, usual, full or usual), strict=True)
    sizes = {size: Size(*words) for size, words in each}
    return Part(name, group, about, HERE / f"{script or name}.py", rows, sizes, needs)


BENCHMARKS = (
    part(
        "accuracy", "mathematics", "error of the approximations of P(τ < x)",
        rows=rows.accuracy, quick=("--triplets 2", 0.1), usual=("", 0.4),
    ),
    part(
        "loss", "losses", "losses beside pytorch-metric-learning's and the paper's formula",
        rows=rows.loss, quick=("--quick", 1.0), usual=("--quick", 1.0), full=("", 5.0),
    ),
    part(
        "memory", "losses", "memory of training with the paper's batches", rows=rows.memory,
        quick=("bayes-gauss+cpu --steps 1", 0.4),
        usual=("bayes-gauss --steps 1", 2.5), full=("", 12.0),
    ),
    part(
        "encode", "encoding", "encoding beside decoding and the network alone", rows=rows.encode,
        quick=("--data {data} --images 16 --rounds 1", 0.7),
        usual=("--data {data} --images 200 --rounds 1", 2.0),
        full=("--data {data}", 12.0), needs=("data",),
    ),
    part(
        "export_speed", "ONNX", "ONNX Runtime beside eager PyTorch", script="export",
        rows=rows.export_speed,
        quick=("--only speed --rounds 1 --data {data} --keep {keep_onnx}", 1.5),
        usual=("--only speed --data {data} --keep {keep_onnx}", 2.0), needs=("data",),
    ),
    part(
        "export_quality", "ONNX", "what int8 costs in quality", script="export",
        rows=rows.export_quality,
        quick=("--only quality --images 300 --data {data} --keep {keep_onnx}", 1.5),
        usual=("--only quality --data {data} --keep {keep_onnx}", 7.0), needs=("data",),
    ),
    part(
        "evaluate", "evaluation", "a whole evaluation beside the bare search", rows=rows.evaluate,
        quick=("--images 2000 --dim 32 --rounds 1 --large 20000", 0.4),
        usual=("--rounds 1", 5.5), full=("--rounds 3", 10.0),
    ),
    part(
        "search", "search", "searching an index beside bare faiss", rows=rows.search,
        quick=("--images 3000 --dim 32 --rounds 1", 0.2),
        usual=("--rounds 3", 6.0), full=("--rounds 5", 7.0),
    ),
    part(
        "growth", "search", "memory of searching as the gallery grows", rows=rows.growth,
        quick=("--largest 1000", 0.2), usual=("--largest 100000", 6.0), full=("--graphs 1000000", 60.0),
    ),
    part(
        "calibrated_search", "search", "what evidence and confidence cost a search",
        rows=rows.calibrated,
        quick=("--count 3000 --dim 32 --rounds 1", 0.3), usual=("--rounds 7", 3.0),
    ),
    part(
        "expansion", "search", "several pictures as one query", rows=rows.expansion,
        quick=("--data glyphs --model {glyphs}", 0.5),
        usual=("--data glyphs --model {glyphs}", 0.5), needs=("glyphs",),
    ),
    part(
        "confidence", "confidence", "how well wrong first hits and foreign queries are told, birds",
        rows=rows.confidence,
        quick=("--data {data} --keep {keep} --backbones MobileNetV2 --draws 1", 20.0),
        usual=("--data {data} --keep {keep} --backbones MobileNetV2", 30.0),
        full=("--data {data} --keep {keep}", 70.0), needs=("data",),
    ),
    part(
        "confidence_glyphs", "confidence", "the same of glyphs", script="confidence",
        rows=rows.confidence,
        quick=("--backbones --glyphs {glyphs} --keep {keep} --draws 1", 4.0),
        usual=("--backbones --glyphs {glyphs} --keep {keep}", 6.0), needs=("glyphs",),
    ),
    part(
        "retrieval_glyphs", "confidence", "whether the variance knows the corruption of glyphs",
        script="retrieval", rows=rows.retrieval_glyphs,
        quick=("glyphs {glyphs}", 0.3), usual=("glyphs {glyphs}", 0.3), needs=("glyphs",),
    ),
    part(
        "retrieval_birds", "confidence", "R@1 of trained encoders on birds never seen",
        script="retrieval", rows=rows.retrieval_birds,
        quick=("{birds_test} {birds} --weights {birds_weights}", 2.0),
        usual=("{birds_test} {birds} --weights {birds_weights}", 2.5), needs=("data", "birds"),
    ),
    part(
        "serve", "service", "a service with many clients, and with too many", rows=rows.serve,
        quick=("--quick --minutes 0.1 --rounds 1", 1.0),
        usual=("--minutes 1", 4.5), full=("--minutes 10 --rounds 5", 16.0),
    ),
    part(
        "startup", "start-up", "what a command costs before it does anything",
        rows=rows.startup, quick=("--rounds 1", 0.3), usual=("", 1.0),
    ),
)  # fmt: skip


PATIENCE = 60.0  # seconds to end politely: a service has others to end as well


@dataclass(frozen=True)
class Record:
    """What became of one benchmark; a file beside its log."""

    state: str  # done, failed, missing
    reason: str = ""
    words: tuple[str, ...] = ()  # of its command line
    code: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    began: str = ""
    seconds: float = 0.0
    others: float | None = None  # cores that were busy with something else
    result: Result | None = None

    def holds(self, words: Sequence[str]) -> bool:
        """Was it measured by this code, with these packages, in this size?"""
        same = (tuple(words), code(), packages()) == (self.words, self.code, self.versions)
        return self.state == "done" and same


def run(part: Part, words: Sequence[str], *, folder: Path, limit: float) -> Record:
    """Keeps log, figures and record in the folder; a failure is told, not raised."""
    figures = folder / f"{part.name}.figures.json"
    figures.unlink(missing_ok=True)
    began, start, before = datetime.now(UTC), time.perf_counter(), busy()
    reason = run_logged([str(part.script), *words, "-o", str(figures)], folder / f"{part.name}.log", limit)
    seconds, after = time.perf_counter() - start, busy()
    result = None
    if not reason:
        try:
            result = json.loads(figures.read_text())
        except (OSError, ValueError) as error:
            reason = f"its figures cannot be read: {type(error).__name__}"
    record = Record(
        state="failed" if reason else "done",
        reason=reason,
        words=tuple(words),
        code=code(),
        versions=packages(),
        began=began.isoformat(timespec="seconds"),
        seconds=seconds,
        others=None if before is None or after is None else max(0.0, (after - before) / seconds),
        result=result,
    )
    write_whole(folder / f"{part.name}.json", json.dumps(asdict(record), indent=1).encode())
    return record


def kept(part: Part, words: Sequence[str], *, folder: Path) -> Record | None:
    """Of an earlier run, if nothing has changed since."""
    try:
        told = json.loads((folder / f"{part.name}.json").read_text())
        pairs = tuple((name, number) for name, number in told["versions"])
        record = Record(**told | {"words": tuple(told["words"]), "versions": pairs})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return record if record.holds(words) else None


def packages() -> tuple[tuple[str, str], ...]:
    return tuple(versions().items())


def run_logged(command: Sequence[str], log: Path, limit: float) -> str:
    """Why it failed, or nothing. In a session of its own, so that Ctrl-C reaches us alone."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with (
        log.open("w") as lines,
        subprocess.Popen(  # noqa: S603
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=lines,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        ) as process,
    ):
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            _end(process)
            return f"not ready after {limit / 60:g} minutes"
        except BaseException:
            _end(process)
            raise
    return "" if status == 0 else _last_line(log) or f"ended with status {status}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """And all that it has started."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(process.pid, signal.SIGKILL)


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")


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
    git = shutil.which("git")
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
    "Guarantees that tests show and no stopwatch: the native ranking equals brute force "
    "(`pytest tests/engines/test_knn.py`), moments on the sphere to 1e-10 (`pytest "
    "tests/functional/test_vmf.py`), no index lost by a kill (`make faults`). The paper's "
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


STOPPED = Record("not measured", "stopped before its turn")
NOT_CHOSEN = Record("not measured", "not among those that were chosen")
RECIPE = "bayes-centred+glyphs"


def main(words: Sequence[str] | None = None, *, parts: Sequence[Part] = BENCHMARKS) -> int:
    """0, or 1 if a benchmark failed, or 130 if stopped; a missed target is no failure."""
    options = parse(words, parts)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = options.results / options.size
    folder.mkdir(parents=True, exist_ok=True)
    start, loads, records = time.perf_counter(), load(), dict[str, Record]()
    stopped = False
    try:
        measure(options, parts, folder, records)
    except KeyboardInterrupt:
        stopped = True
    setting = Setting(
        size=options.size,
        ended=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        minutes=(time.perf_counter() - start) / 60,
        versions=versions(),
        commit=commit(),
        machine=machine(),
        loads=(loads, load()),
    )
    told = {part.name: records.get(part.name, STOPPED) for part in parts}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.output, page(setting, parts, told).encode())
    judged = "nothing is judged" if options.size == "quick" else summary(parts, told)
    print(f"\n{options.output}: {judged}")
    if stopped:
        print("stopped; --resume goes on from here")
        return 130
    return int(any(record.state == "failed" for record in told.values()))


def measure(options: argparse.Namespace, parts: Sequence[Part], folder: Path, records: dict[str, Record]) -> None:
    """Fills the records one by one, so that a stop loses none."""
    chosen = [part for part in parts if not options.only or part.name in options.only]
    places = places_of(options, chosen)
    words = {part.name: _command(part, options.size, places) for part in parts}
    for part in parts:
        old = _kept(part, words[part.name], folder)
        if part not in chosen:
            records[part.name] = old or NOT_CHOSEN
        elif old is not None and options.resume:
            records[part.name] = old
    todo = [part for part in chosen if part.name not in records]
    expected = {part.name: part.sizes[options.size].minutes for part in todo}
    done, spent = 0.0, 0.0
    for number, part in enumerate(todo, 1):
        left = sum(list(expected.values())[number - 1 :]) * (spent / done if done else 1.0)
        print(f"[{number}/{len(todo)}] {part.name} … about {left:.0f} min left", flush=True)
        command = words[part.name]
        if command is None:
            record = Record("no data", "; ".join(_missing(part, places)))
        else:
            record = run(part, command, folder=folder, limit=60 * options.limit)
            done, spent = done + expected[part.name], spent + record.seconds / 60
        records[part.name] = record
        print(f"    {record.state}, {record.seconds:.0f} s {record.reason}", flush=True)


def places_of(options: argparse.Namespace, chosen: Sequence[Part]) -> dict[str, list[str]]:
    """Where the inputs are that are there; without a model of glyphs, one is trained."""
    places = {"keep": [str(options.keep)], "keep_onnx": [str(options.keep / "onnx")]}
    if (options.data / "cub200-2010").is_dir():
        places["data"] = [str(options.data)]
        places["birds_test"] = [f"cub200:{options.data / 'cub200-2010'}"]
        weights = options.data / "weights" / "mobilenetv2_100.safetensors"
        places["birds_weights"] = [str(weights)]
    if options.birds:
        places["birds"] = [str(model) for model in options.birds]
    if options.glyphs is not None:
        places["glyphs"] = [str(options.glyphs)]
    elif options.size != "quick":
        places |= train_glyphs(options, needed=any("glyphs" in part.needs for part in chosen))
    return places


def train_glyphs(options: argparse.Namespace, *, needed: bool) -> dict[str, list[str]]:
    """Where the model is; the one of an earlier run if this one goes on from there."""
    model = options.results / "glyphs-model"
    there = (model / "model.safetensors").exists()
    if not needed:
        return {"glyphs": [str(model)]} if there else {}
    if not options.resume or not there:
        shutil.rmtree(model, ignore_errors=True)
        print("training an encoder on glyphs … a few minutes", flush=True)
        words = ["-m", "surefind", "train", "glyphs", "-o", str(model), "--recipe", RECIPE]
        reason = run_logged(words, options.results / "glyphs-model.log", 60 * options.limit)
        if reason:
            print(f"    failed: {reason}", flush=True)
            return {}
    return {"glyphs": [str(model)]}


def parse(words: Sequence[str] | None, parts: Sequence[Part]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    size = parser.add_mutually_exclusive_group()
    for name, meaning in {
        "quick": "tiny sizes, to see that everything runs; nothing is judged",
        "full": "the longest sizes: hours",
    }.items():
        size.add_argument(f"--{name}", dest="size", action="store_const", const=name, help=meaning)
    parser.set_defaults(size="usual")
    names = [part.name for part in parts]
    parser.add_argument("--only", nargs="+", choices=names, help="others are kept as they are")
    parser.add_argument("--resume", action="store_true", help="not again what is measured already")
    data = os.environ.get("SUREFIND_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(data), help="photos and weights")
    parser.add_argument("--keep", type=Path, default=Path(".cache/embeddings"))
    parser.add_argument("--glyphs", type=Path, help="encoder trained on glyphs; else one is trained")
    parser.add_argument("--birds", nargs="+", type=Path, help="encoders trained on CUB-200")
    parser.add_argument("--limit", type=float, default=240, help="minutes for each benchmark")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "all")
    parser.add_argument("-o", "--output", type=Path, help="docs/benchmarks.md, unless --quick")
    options = parser.parse_args(words)
    if options.output is None:
        usual = ROOT / "docs" / "benchmarks.md"
        options.output = options.results / "quick.md" if options.size == "quick" else usual
    return options


def summary(parts: Sequence[Part], records: Mapping[str, Record]) -> str:
    """
    >>> summary([], {})
    '0 targets met, 0 missed, 0 benchmarks without figures'
    """
    told = [record for record in records.values() if record.result is not None]
    rows = [row for part in parts for row in rows_of(part, records[part.name])]
    kept, missed = (sum(row.met is wanted for row in rows) for wanted in (True, False))
    without = len(records) - len(told)
    return f"{kept} targets met, {missed} missed, {without} benchmarks without figures"


def _command(part: Part, size: str, places: Mapping[str, Sequence[str]]) -> list[str] | None:
    return None if _missing(part, places) else part.command(size, places)


def _missing(part: Part, places: Mapping[str, Sequence[str]]) -> list[str]:
    return [MISSING[need] for need in part.needs if need not in places]


def _kept(part: Part, words: Sequence[str] | None, folder: Path) -> Record | None:
    return None if words is None else kept(part, words, folder=folder)


if __name__ == "__main__":
    sys.exit(main())
