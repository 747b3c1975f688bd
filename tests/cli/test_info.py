"""surefind info as a user calls it."""

import json
from pathlib import Path

import pytest
from calibrations import make_calibrated_index

from surefind.encoders import Encoder
from surefind.search.index import Index


@pytest.fixture(scope="module")
def calibrated(model: Path, tmp_path_factory) -> Path:
    return make_calibrated_index(tmp_path_factory.mktemp("calibrated"), model) / "index"


def test_info_tells_what_is_in_an_index(surefind, finished: Path, model: Path):
    done = surefind("info", finished)
    assert done.code == 0
    told = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert told["images"] == "20"
    assert told["fingerprint"] == Encoder.load(model).fingerprint
    assert (told["family"], told["dim"], told["ranking"]) == ("gaussian", "15", "mean")
    assert (told["engine"], told["kind"]) == ("faiss", "flat")
    assert "created" in told and "version" in told
    assert told["bytes"].endswith(("kB", "MB"))
    assert told["calibration"] == f"not calibrated: surefind calibrate {finished} DATA"
    assert "guarantee" not in told
    facts = json.loads(surefind("info", finished, "--json").out)
    assert (facts["images"], facts["dim"], facts["warnings"]) == (20, 15, [])
    assert isinstance(facts["bytes"], int) and facts["calibration"] is None


def test_warnings_are_told(surefind, finished: Path, monkeypatch):
    monkeypatch.setattr(Index, "warnings", ("version 7\x1b[2J is damaged",))
    assert "warning: version 7�[2J is damaged" in surefind("info", finished).out


def test_a_calibration_is_told_with_its_date_and_its_guarantee(surefind, calibrated: Path):
    told = dict(line.split(maxsplit=1) for line in surefind("info", calibrated).out.splitlines())
    with Index.open(calibrated) as index:
        assert index.calibration is not None
        origin, quality = index.calibration.origin, index.calibration.quality
    queries = calibrated.with_name("queries")
    assert told["calibration"] == f"{origin.created[:10]}, 288 queries of 24 classes ({queries})"
    for value in (quality.auroc, quality.baseline_auroc, quality.ratio_auroc):
        assert f"{value:.3f}" in told["quality"]
    assert f"ECE {quality.ece:.3f} (of a perfect model {quality.floor:.3f})" in told["quality"]
    assert told["guarantee"].startswith("Guarantee (90 % probability): at least 80 % of results")
    assert "of queries" in told["prediction_set"] and "not in the catalogue" in told["no_match"]
    assert "warning:" not in told
    facts = json.loads(surefind("info", calibrated, "--json").out)
    assert facts["calibration"]["origin"]["queries"] == 288


def test_what_weakens_a_guarantee_is_a_warning(surefind, calibrated: Path, monkeypatch):
    with Index.open(calibrated) as index:
        assert index.calibrated is not None
        object.__setattr__(index.calibration.origin, "remarks", ("only 4\x1b classes",))
        monkeypatch.setattr(Index, "calibrated", index.calibrated)
    assert "warning: only 4� classes" in surefind("info", calibrated).out
