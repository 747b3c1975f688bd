"""Benchmarks that take no time: what they do is a line of Python."""

from pathlib import Path

from all_parts import SIZES, Part, Size
from all_rows import Row

OPENING = """
import json, os, signal, sys, time
from pathlib import Path
output = Path(sys.argv[sys.argv.index("-o") + 1])
runs = Path(__file__).with_suffix(".runs")
runs.write_text((runs.read_text() if runs.exists() else "") + "once ")
"""
SUCCEEDS = "output.write_text(json.dumps({'ratio': 2.5, 'words': sys.argv[1:-2]}))"
FAILS = "sys.exit('/somewhere/private/photos is broken')"
WRITES_NOTHING = "print('fine')"
WRITES_ELSE = "output.write_text('{}')"
STOPS_ALL = "os.kill(os.getppid(), signal.SIGINT); time.sleep(60)"
HANGS = "time.sleep(60)"


def stub(
    folder: Path, name: str, does: str, *, group: str = "", needs: tuple[str, ...] = ()
) -> Part:
    """A script in the folder that notes each run of it beside itself."""
    script = folder / f"{name}.py"
    script.write_text(OPENING + does + "\n")
    words = "--here {data}" if "data" in needs else "--size 5"
    return Part(
        name=name,
        group=group or "speed",
        about=f"what {name} is about",
        script=script,
        rows=lambda result: [Row(f"ratio of {name}", f"{result['ratio']:.1f} x", ">= 2", True)],
        sizes={size: Size(words, 0.1) for size in SIZES},
        needs=needs,
    )


def runs_of(part: Part) -> int:
    noted = part.script.with_suffix(".runs")
    return len(noted.read_text().split()) if noted.exists() else 0
