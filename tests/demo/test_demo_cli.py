"""surefind demo."""

import json
from pathlib import Path

import pytest
from command import Surefind
from small_demo import Finished

pytestmark = pytest.mark.usefixtures("tiny")


def test_stages_go_to_stderr_and_the_table_to_stdout(surefind: Surefind, finished: Finished):
    done = surefind("demo", "-o", finished.folder)
    assert done.code == 0
    lines = done.err.splitlines()
    assert lines[0].startswith("1/8 drawing glyphs, about 0:0") and lines[0].endswith(" left in all ...")
    assert [line for line in lines if line.startswith("8/8")][-1].endswith(" s)")
    assert done.out.count("d₁/d₂₀") >= 2
    assert finished.result.questions[2].about in done.out
    for found in finished.result.evaluations.values():
        assert all(f"{signal.auroc.value:.3f}" in done.out for signal in found.signals.values())
    *_, page, own = done.out.rstrip().splitlines()
    assert own.endswith("surefind train photos/ -o model")
    assert "surefind serve" in done.out
    assert page


def test_json_is_all_of_stdout(surefind: Surefind, finished: Finished):
    facts = json.loads(surefind("demo", "-o", finished.folder, "--json").out)
    assert {"output", "seed", "seconds", "paths"} <= set(facts)
    assert set(facts["evaluations"]) == set(finished.result.evaluations)
    assert len(facts["stages"]) == 8
    assert set(facts["stages"][0]) == {"number", "name", "figure", "seconds", "reused"}
    assert {query["verdict"] for query in facts["queries"]} <= {"match", "unsure", "no_match"}
    assert facts["next"][0].startswith(f"surefind serve {finished.folder}/index --samples ")


def test_without_the_service_a_line_says_how_to_install_it_and_serving_is_refused_first(
    surefind: Surefind, finished: Finished, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("surefind.cli.demo.PACKAGES", ("no_such_package",))
    done = surefind("demo", "-o", finished.folder)
    assert "For the page:     pip install 'surefind[serve]'" in done.out
    done = surefind("demo", "--serve")
    assert done.code == 1
    assert "pip install 'surefind[serve]'" in done.err
    assert list(Path().iterdir()) == []


def test_the_page_is_served_at_the_end(surefind: Surefind, finished: Finished, monkeypatch: pytest.MonkeyPatch):
    served = []
    monkeypatch.setattr("surefind.cli.serve.serve", lambda index, **options: served.append((index, options)))
    done = surefind("demo", "-o", finished.folder, "--serve", "--port", "0")
    folder = finished.folder
    assert done.code == 0
    assert served == [(folder / "index", {"port": 0, "samples": folder / "queries", "report": folder / "report"})]
    assert "Open the page" not in done.out
