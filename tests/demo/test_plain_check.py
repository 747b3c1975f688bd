"""The plain script arrives at the figures of the demo, and notices when it does not."""

import json
import os
import subprocess
import sys
from pathlib import Path

from small_demo import Finished

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "plain_check.py"


def check(finished: Finished, off: float, place: Path) -> subprocess.CompletedProcess[str]:
    table = json.loads(json.dumps(finished.result.as_dict()))
    table["evaluations"]["triplet baseline"]["signals"]["ratio_1_20"]["auroc"]["value"] += off
    (place / "table.json").write_text(json.dumps(table))
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(finished.folder), str(place / "table.json")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )


def test_it_arrives_at_the_same_figures(finished: Finished, tmp_path: Path):
    done = check(finished, 0.0, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\n") == 1 + 3 + 3 + 5


def test_another_figure_is_noticed(finished: Finished, tmp_path: Path):
    done = check(finished, 0.01, tmp_path)
    assert done.returncode == 1
    assert "they differ by up to 0.01" in done.stderr
