"""surefind demo."""

import json
from pathlib import Path

import pytest
from command import Surefind
from small_demo import Finished

from surefind.demo.stages import NAMES

pytestmark = pytest.mark.usefixtures("tiny")


def test_stages_go_to_stderr_and_the_table_to_stdout(surefind: Surefind, finished: Finished):
    done = surefind("demo", "-o", finished.folder)
    assert done.code == 0
    lines = done.err.splitlines()
    assert lines[0].startswith("1/9 drawing glyphs")
    assert [line for line in lines if line.startswith("9/9")][-1].endswith(" s)")
    assert done.out.count("d₁/d₂₀") >= 2
    assert "chess board" in done.out
    assert all(f"{row.auroc:.3f}" in done.out for row in finished.result.rows)
    *_, page, own = done.out.rstrip().splitlines()
    assert own.endswith("surefind train photos/ -o model")
    assert "surefind serve" in done.out
    assert page


def test_json_is_all_of_stdout(surefind: Surefind, finished: Finished):
    done = surefind("demo", "-o", finished.folder, "--json")
    told = json.loads(done.out)
    assert {"output", "seed", "seconds", "stages", "table", "queries", "paths", "next"} <= set(told)
    assert told["table"] == finished.result.as_dict()["table"]
    assert len(told["stages"]) == len(NAMES)


def test_quiet_is_quiet(surefind: Surefind, finished: Finished):
    done = surefind("demo", "-o", finished.folder, "--quiet")
    assert (done.code, done.err) == (0, "")
    assert "Who knows when" in done.out


def test_without_the_service_a_remark_says_how_to_install_it(
    surefind: Surefind, finished: Finished, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("surefind.demo.service.PACKAGES", ("no_such_package",))
    done = surefind("demo", "-o", finished.folder, "--json")
    assert json.loads(done.out)["service"] is None
    assert "9/9 asking the service: left out" in done.err
    assert "pip install 'surefind[serve]'" in done.err


def test_serving_without_the_service_is_refused_before_the_work(
    surefind: Surefind, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("surefind.demo.service.PACKAGES", ("no_such_package",))
    done = surefind("demo", "--serve")
    assert done.code == 1
    assert "pip install 'surefind[serve]'" in done.err
    assert list(Path().iterdir()) == []


def test_the_page_is_served_at_the_end(
    surefind: Surefind, finished: Finished, monkeypatch: pytest.MonkeyPatch
):
    served = []
    monkeypatch.setattr(
        "surefind.cli.serve.serve", lambda index, **options: served.append((index, options))
    )
    done = surefind("demo", "-o", finished.folder, "--serve", "--port", "0")
    folder = finished.folder
    assert done.code == 0
    assert served == [
        (folder / "index", {"port": 0, "samples": folder / "queries", "report": folder / "report"})
    ]
    assert "Open the page" not in done.out


def test_a_folder_of_somebody_else_is_refused(surefind: Surefind, tmp_path: Path):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "thesis.tex").touch()
    done = surefind("demo")
    assert done.code == 1
    assert "demo is no demo, and is not empty" in done.err
    assert "surefind demo -o FOLDER" in done.err
