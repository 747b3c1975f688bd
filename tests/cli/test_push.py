"""surefind push as a user calls it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from evaluations import make_evaluation
from hub_server import OF_THE_LIBRARY, TOKEN, Hub, a_hub  # noqa: F401 - a fixture
from huggingface_hub import ModelCard, constants

from surefind.encoders import Encoder

NAME = "birds/encoder"
pytestmark = pytest.mark.filterwarnings(OF_THE_LIBRARY)


@pytest.fixture
def copied(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


@pytest.fixture
def report(model: Path, tmp_path: Path) -> Path:
    """Made up, but of that model."""
    result, _ = make_evaluation(tmp_path / "made-up", queries=12, foreign=2)
    fingerprint = Encoder.load(model).fingerprint
    (tmp_path / "report").mkdir()
    replace(result, about=replace(result.about, fingerprint=fingerprint)).write(tmp_path / "report" / "results.json")
    return tmp_path / "report"


def test_a_pushed_model_is_loaded_by_its_name(surefind, copied, report, hub: Hub):
    (copied / "run").mkdir()
    (copied / "run" / "state.pt").write_text("mine")
    done = surefind("push", copied, NAME, "--report", report)
    assert done.code == 0, done.err
    assert done.out.endswith(f"uploaded: {hub.address}/{NAME}\n")
    assert sorted(hub.files(NAME)) == ["README.md", "config.json", "model.safetensors"]
    card = ModelCard(hub.files(NAME)["README.md"].decode())
    kinds = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert kinds["recall_at_1_by_expected_distance"] == 0.6
    assert kinds["auroc_error_query_var"] == 0.7
    assert kinds["auroc_foreign_query_var"] == 0.9
    assert Encoder.load(NAME).fingerprint == Encoder.load(copied).fingerprint
    assert TOKEN not in done.out + done.err


def test_a_dry_run_shows_everything_and_uploads_nothing(surefind, copied, hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.delenv("HF_TOKEN")
    done = surefind("push", copied, NAME, "--dry-run")
    assert done.code == 0, done.err
    assert "bytes  model.safetensors" in done.out
    assert f'Encoder.load("{NAME}")' in done.out
    assert "nothing was uploaded" in done.err and "has no license" in done.err
    assert hub.asked == []


def test_the_result_is_printed_as_json(surefind, copied, hub):
    facts = json.loads(surefind("push", copied, f"{NAME}@v2", "--dry-run", "--json").out)
    assert facts["url"] is None and facts["card"].startswith("---\n")
    size = (copied / "model.safetensors").stat().st_size
    assert facts["files"]["model.safetensors"] == size
    facts = json.loads(surefind("push", copied, f"{NAME}@v2", "--private", "--json").out)
    assert facts["url"] == f"{hub.address}/{NAME}/tree/v2" and facts["revision"] == "v2"
    assert NAME in hub.private


def test_a_damaged_model_and_the_report_of_another_are_refused(surefind, copied, tmp_path, hub):
    result, _ = make_evaluation(tmp_path / "made-up", queries=12, foreign=2)
    result.write(tmp_path / "results.json")
    done = surefind("push", copied, NAME, "--report", tmp_path / "results.json")
    assert done.code == 1 and "is the report of another model" in done.err
    done = surefind("push", copied, NAME, "--report", "nowhere")
    assert done.code == 1 and "cannot read nowhere" in done.err
    path = copied / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    done = surefind("push", copied, NAME)
    assert done.code == 1 and "does not belong" in done.err
    assert hub.asked == []
