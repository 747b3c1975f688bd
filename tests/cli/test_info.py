"""surefind info and surefind verify as a user calls them."""

import json
import shutil
from pathlib import Path

import pytest
from stores import forget_calibration

from surefind.encoders import Encoder
from surefind.search.index import Index


@pytest.fixture
def made(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "made"))


def test_info_shows_what_is_in_an_index(surefind, finished: Path, model: Path):
    done = surefind("info", finished)
    assert done.code == 0
    shown = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert shown["images"] == "20"
    assert shown["fingerprint"] == Encoder.load(model).fingerprint
    assert (shown["family"], shown["dim"], shown["ranking"]) == ("gaussian", "15", "mean")
    assert (shown["engine"], shown["kind"]) == ("faiss", "flat")
    assert "created" in shown and "version" in shown
    assert shown["bytes"].endswith(("kB", "MB"))
    assert shown["calibration"].endswith("20 queries of 4 classes (the index itself), by labels of the index")
    assert shown["guarantee"].startswith("A precision of 95 % cannot be guaranteed")
    facts = json.loads(surefind("info", finished, "--json").out)
    assert (facts["images"], facts["dim"], facts["warnings"]) == (20, 15, [])
    assert isinstance(facts["bytes"], int)
    assert facts["calibration"]["origin"]["evidence"] == "labels"


def test_info_says_how_to_calibrate(surefind, made: Path):
    forget_calibration(made)
    done = surefind("info", made)
    assert f"not calibrated: surefind calibrate {made} DATA\n" in done.out
    assert "guarantee" not in done.out
    assert json.loads(surefind("info", made, "--json").out)["calibration"] is None


def test_a_calibration_is_shown_with_its_date_and_guarantee(surefind, calibrated: Path):
    folder, queries = calibrated / "index", calibrated / "queries"
    shown = dict(line.split(maxsplit=1) for line in surefind("info", folder).out.splitlines())
    with Index.open(folder) as index:
        assert index.calibration is not None
        origin, quality = index.calibration.origin, index.calibration.quality
    about = f"{origin.created[:10]}, 288 queries of 24 classes ({queries}), by labels of the index"
    assert shown["calibration"] == about
    signals = (quality.auroc, quality.baseline_auroc, quality.ratio_auroc, quality.vote_auroc)
    for value in signals:
        assert f"{value:.3f}" in shown["quality"]
    assert f"ECE {quality.ece:.3f} (of a perfect model {quality.floor:.3f})" in shown["quality"]
    assert shown["guarantee"].startswith("Guarantee (90 % probability): at least 80 % of results")
    assert "of queries" in shown["prediction_set"] and "not in the catalogue" in shown["no_match"]
    assert "warning:" not in shown
    facts = json.loads(surefind("info", folder, "--json").out)
    assert facts["calibration"]["origin"]["queries"] == 288


def test_what_weakens_a_guarantee_is_a_warning(surefind, calibrated: Path, monkeypatch):
    with Index.open(calibrated / "index") as index:
        assert index.calibrated is not None
        object.__setattr__(index.calibration.origin, "remarks", ("only 4\x1b classes",))
        monkeypatch.setattr(Index, "calibrated", index.calibrated)
    assert "warning: only 4� classes" in surefind("info", calibrated / "index").out


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_an_intact_index_passes(surefind, finished: Path):
    done = surefind("verify", finished, "--repair")
    assert done.code == 0
    assert done.out == "20 images, no corruption found\n"


def test_a_flipped_bit_in_the_vectors_is_found(surefind, made: Path):
    damage(*(made / "store").glob("*.vectors"))
    done = surefind("verify", made)
    assert done.code == 1
    assert "fix: restore the folder from a copy" in done.err
    assert "no corruption" not in done.out


def test_a_damaged_row_is_found_and_stays_a_failure(surefind, made: Path):
    content = (made / "store" / "index.db").read_bytes()
    (made / "store" / "index.db").write_bytes(content.replace(b'"label"', b'"lebal"', 1))
    done = surefind("verify", made, "--repair")
    assert done.code == 1
    assert "is not as it was written\n" in done.out
    assert done.out.splitlines()[-1].startswith("  fix: restore it from a backup")


@pytest.mark.parametrize("left", [[], ["rows 3\x1b are damaged"]])
def test_what_was_repaired_is_checked_again(surefind, finished: Path, monkeypatch, left):
    found = [["rows 3\x1b are damaged"], left] * 2
    monkeypatch.setattr(Index, "verify", lambda index: found.pop(0))
    monkeypatch.setattr(Index, "repair", lambda index: "the graph was built again")
    done = surefind("verify", finished, "--repair")
    assert done.code == (1 if left else 0)
    whole = "20 images, no corruption found\n"
    shown = "rows 3� are damaged\n  fix: restore it from a backup" if left else whole
    assert done.out.startswith(f"repaired: the graph was built again\n{shown}")
    facts = json.loads(surefind("verify", finished, "--repair", "--json").out)
    assert (facts["problems"], facts["repaired"]) == (left, "the graph was built again")

    monkeypatch.setattr(Index, "verify", lambda index: ["rows are damaged"])
    assert f"surefind verify {finished} --repair" in surefind("verify", finished).out
