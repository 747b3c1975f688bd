"""The plain script arrives at the figures of the demo, and notices when it does not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_demo import Finished

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "plain_check.py"


def check(finished: Finished, table: list[dict], place: Path) -> subprocess.CompletedProcess[str]:
    (place / "table.json").write_text(json.dumps({"table": table}))
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(finished.folder), str(place / "table.json")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )


def test_it_arrives_at_the_same_figures(finished: Finished, tmp_path: Path):
    table = finished.result.as_dict()["table"]
    done = check(finished, table, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for row in table:
        assert f"{row['encoder']}, {row['told_by']}" in done.stdout
    assert done.stdout.count("\n") == 1 + 3 + 3 + len(table)


@pytest.mark.parametrize("figure", ["recall", "auroc"])
def test_another_figure_is_noticed(finished: Finished, tmp_path: Path, figure: str):
    table = finished.result.as_dict()["table"]
    table[2] |= {figure: table[2][figure] + 0.01}
    done = check(finished, table, tmp_path)
    assert done.returncode == 1
    assert "they differ by up to 0.01" in done.stderr
