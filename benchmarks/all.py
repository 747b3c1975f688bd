"""Every benchmark, one after the other, and one table of all that was promised.

python benchmarks/all.py [--quick | --full] [--only NAME ...] [--resume] [-o docs/benchmarks.md]

Each runs in a process of its own. What fails or lacks its data is a row that says so. Stopped by
Ctrl-C, what is done is kept and the table is written; --resume goes on from there. Figures are used
again only if code, packages and sizes are the same.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from all_machine import commit, load, machine, versions
from all_page import Setting, page, rows_of
from all_parts import MISSING, PARTS, Part
from all_running import Record, kept, run, run_logged

from surefind.files import write_whole

HERE = Path(__file__).parent
STOPPED = Record("not measured", "stopped before its turn")
NOT_CHOSEN = Record("not measured", "not among those that were chosen")
RECIPE = "bayes-centred+glyphs"


def main(words: Sequence[str] | None = None, *, parts: Sequence[Part] = PARTS) -> int:
    """0, or 1 if a benchmark failed, or 130 if stopped; a promise that is missed is no failure."""
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


def measure(
    options: argparse.Namespace, parts: Sequence[Part], folder: Path, records: dict[str, Record]
) -> None:
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
    parser.add_argument(
        "--glyphs", type=Path, help="encoder trained on glyphs; else one is trained"
    )
    parser.add_argument("--birds", nargs="+", type=Path, help="encoders trained on CUB-200")
    parser.add_argument("--limit", type=float, default=240, help="minutes for each benchmark")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "all")
    parser.add_argument("-o", "--output", type=Path, help="docs/benchmarks.md, unless --quick")
    options = parser.parse_args(words)
    if options.output is None:
        usual = HERE.parent / "docs" / "benchmarks.md"
        options.output = options.results / "quick.md" if options.size == "quick" else usual
    return options


def summary(parts: Sequence[Part], records: Mapping[str, Record]) -> str:
    """
    >>> summary([], {})
    '0 promises kept, 0 missed, 0 benchmarks without figures'
    """
    told = [record for record in records.values() if record.result is not None]
    rows = [row for part in parts for row in rows_of(part, records[part.name])]
    kept, missed = (sum(row.met is wanted for row in rows) for wanted in (True, False))
    without = len(records) - len(told)
    return f"{kept} promises kept, {missed} missed, {without} benchmarks without figures"


def _command(part: Part, size: str, places: Mapping[str, Sequence[str]]) -> list[str] | None:
    return None if _missing(part, places) else part.command(size, places)


def _missing(part: Part, places: Mapping[str, Sequence[str]]) -> list[str]:
    return [MISSING[need] for need in part.needs if need not in places]


def _kept(part: Part, words: Sequence[str] | None, folder: Path) -> Record | None:
    return None if words is None else kept(part, words, folder=folder)


if __name__ == "__main__":
    sys.exit(main())
