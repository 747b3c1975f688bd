"""surefind search as a user calls it."""

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from stores import forget_calibration

from surefind.encoders import Encoder
from surefind.search.index import Index


def query_with(verdict: str, folder: Path) -> Path:
    """The first query that comes to this."""
    if verdict == "no_match":
        return folder / "foreign.png"
    with Index.open(folder / "index") as index:
        found = index.search(sorted((folder / "queries" / "class00").iterdir()))
    return next(Path(result.query) for result in found if result.verdict == verdict)


def results(out: str) -> list[dict]:
    found: list[dict] = json.loads(out)
    return found


def test_the_first_minute(finished: Path, gallery: Path, tmp_path: Path):
    command = [sys.executable, "-m", "surefind", "search", finished, gallery / "class01" / "2.png"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].endswith("class01/2.png")
    assert lines[1].startswith("var ")
    assert lines[2].startswith("match: the confidence reaches the threshold (95 %)")
    assert lines[3] == "label: class01, 100 %"  # a copy
    columns = ["#", "id", "label", "distance", "expected", "±", "std", "confidence"]
    assert lines[4].split() == columns
    assert lines[6].split()[:3] == ["1", "class01/2.png", "class01"]
    assert lines[-2].endswith("20 queries of 4 classes (the index itself), by labels of the index")
    assert lines[-1] == "Not guaranteed: see surefind info."


def test_without_a_calibration_nothing_looks_like_a_probability(
    surefind, finished: Path, gallery: Path, tmp_path: Path
):
    shutil.copytree(finished, tmp_path / "index")
    forget_calibration(tmp_path / "index")
    done = surefind("search", "index", gallery / "class01" / "2.png")
    lines = done.out.splitlines()
    assert lines[2].split() == ["#", "id", "label", "distance", "expected", "±", "std"]
    assert lines[9:] == ["", "not calibrated yet: surefind calibrate index DATA"]
    for word in ("P(", "%", "probab", "confidence"):
        assert word not in done.out


def test_json_has_the_fields_of_a_hit(surefind, finished: Path, gallery: Path):
    query = gallery / "class01" / "2.png"
    done = surefind("search", finished, query, "-k", "3", "--radius", "1", "--json")
    (found,) = results(done.out)
    assert found["query"] == str(query)
    assert found["ranking"] == "confidence" and found["query_var"] > 0
    assert [set(hit) for hit in found["hits"]] == [
        {
            "id", "path", "distance", "expected_distance", "std", "var", "p_within",
            "metadata", "label", "confidence",
        }
    ] * 3  # fmt: skip
    first = found["hits"][0]
    assert (first["id"], first["path"]) == ("class01/2.png", str(query))
    assert first["label"] == first["metadata"]["label"] == found["label"] == "class01"
    assert first["distance"] == pytest.approx(0, abs=1e-6)
    assert 0 < first["p_within"] <= 1


def test_many_queries_are_answered_in_order(surefind, finished: Path, gallery: Path):
    found = results(surefind("search", finished, gallery, gallery, "-k", "1", "--json").out)
    assert [Path(one["query"]).name for one in found] == [f"{n}.png" for n in range(5)] * 8
    assert all(one["query"].endswith(one["hits"][0]["id"]) for one in found)


def test_an_image_on_stdin_is_a_query(surefind, finished: Path, gallery: Path, monkeypatch):
    content = (gallery / "class01" / "4.png").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    (found,) = results(surefind("search", finished, "-", "--json").out)
    assert found["query"] == "-"
    assert found["hits"][0]["id"] == "class01/4.png"


def test_an_unreadable_query_is_reported_and_the_others_are_answered(surefind, finished: Path, photos: Path):
    bad = photos / "bad\x1b.png"
    bad.write_bytes(b"no picture")
    (photos / "none").mkdir()
    long = "a" * 5000
    queries = (photos / "class00/0.png", bad, "gone.png", photos / "none", long, photos / "class01")
    done = surefind("search", finished, *queries, "-k", "1", "--csv")
    assert done.code == 1
    assert {Path(line).name for line in done.err.splitlines()} == {
        f"{long}: cannot be read: file name too long",
        "bad�.png: not an image",
        "gone.png: no such file",
        "none: no images",
    }
    assert len(done.out.splitlines()) == 1 + 1 + 5


def test_views_of_one_item_are_one_query(surefind, finished: Path, gallery: Path, tmp_path: Path):
    (tmp_path / "bad.png").write_bytes(b"no picture")
    ask = ("search", finished, gallery / "class02", "--views", "-k", "5", "--json")
    done = surefind(*ask)
    (found,) = results(done.out)
    assert done.code == 0
    assert {hit["metadata"]["label"] for hit in found["hits"]} == {"class02"}
    (single,) = results(surefind(*ask[:2], gallery / "class02" / "0.png", "--json").out)
    assert found["query_var"] < single["query_var"]
    assert surefind(*ask, "bad.png").code == 1


def test_options_reach_the_index(surefind, finished: Path, gallery: Path):
    query = gallery / "class00" / "0.png"

    def ids(*options: str) -> list[str]:
        (found,) = results(surefind("search", finished, query, *options, "--json").out)
        return [hit["id"] for hit in found["hits"]]

    with Index.open(finished) as index:
        other = index.search(query, ranking="expected", k=7)
        expanded = index.search(query, expand=3)
    assert ids("--ranking", "expected", "-k", "7") == [hit.id for hit in other.hits]
    assert ids("--expand", "3") == [hit.id for hit in expanded.hits]
    assert ids("--where", "label=class02", "--where", "var>0", "-k", "9") == sorted(
        ids("--where", "label=class02", "-k", "9"), key=ids("-k", "20").index
    )
    assert ids("--where", "label=class02", "--where", "label=class01") == []
    done = surefind("search", finished, query, "--where", "label=no")
    assert done.code == 5 and "nothing found" in done.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--where", "label"], "where: expected FIELD OP VALUE"),
        (["--radius", "nan"], "radius: expected a positive number"),
        (["--json", "--csv"], "--json, --csv: expected one of them"),
    ],
)
def test_bad_options_are_one_message_before_anything_is_encoded(surefind, finished, monkeypatch, options, message):
    monkeypatch.setattr(Encoder, "encode_all", lambda *_, **__: pytest.fail("encoded"))
    done = surefind("search", finished, "query.png", *options)
    assert (done.code, done.out) == (1, "")
    assert message in done.err


def test_a_file_name_that_is_not_unicode_works(surefind, finished: Path, gallery: Path, tmp_path: Path):
    name = "caf\udce9.png"  # as Python reads the bytes of another encoding
    shutil.copy(gallery / "class00" / "0.png", tmp_path / name)
    for form in ([], ["--csv"], ["--json"]):
        done = surefind("search", finished, name, "-k", "1", *form)
        assert done.code == 0
        assert "class00/0.png" in done.out


def test_a_calibrated_search_shows_verdict_confidence_and_guarantee(surefind, calibrated: Path):
    done = surefind("search", calibrated / "index", query_with("unsure", calibrated), "-k", "2")
    assert (done.code, done.err) == (3, "")
    lines = done.out.splitlines()
    assert lines[2].startswith("unsure: the confidence is below the threshold (")
    assert lines[3].startswith("label: class")
    assert lines[4].split()[-1] == "confidence"
    assert lines[-2].startswith("calibrated: 20")
    assert "288 queries of 24 classes" in lines[-2]
    assert "Guarantee (90 % probability): at least 80 % of results" in lines[-1]


def test_the_exit_code_is_that_of_the_worst_verdict(surefind, calibrated: Path):
    match, unsure, foreign = (query_with(verdict, calibrated) for verdict in ("match", "unsure", "no_match"))
    search = ("search", calibrated / "index", "--json")
    assert surefind(*search, match, match).code == 0
    assert surefind(*search, unsure, match).code == 3
    assert surefind(*search, match, foreign, unsure).code == 4
    assert surefind(*search, foreign, "gone.png").code == 1


def test_json_and_csv_hold_the_verdict(surefind, calibrated: Path):
    search = ("search", calibrated / "index", calibrated / "foreign.png", "-k", "2")
    (found,) = results(surefind(*search, "--json").out)
    assert found["verdict"] == "no_match"
    assert found["novelty_p_value"] == pytest.approx(2 / 289)
    assert found["confidence"] == found["hits"][0]["confidence"]
    assert found["uncalibrated"] is None
    assert sum(found["labels"].values()) <= 1
    assert found["label_set"] == list(found["labels"])[: len(found["label_set"])]
    for row in csv.DictReader(io.StringIO(surefind(*search, "--csv").out)):
        assert (row["verdict"], row["show"]) == ("no_match", str(found["show"]))
        assert (row["answer"], json.loads(row["answer_set"])) == (found["label"], found["label_set"])


def test_a_gallery_that_has_grown_without_labels_is_a_warning(surefind, calibrated: Path, model: Path, tmp_path: Path):
    shutil.copytree(calibrated / "index", tmp_path / "index")
    more = calibrated / "queries"
    surefind("calibrate", "index", more, "--no-labels", "--no-variance", "--precision", "0.8")
    surefind("index", more, "--model", model, "-o", "index", "--prefix", "more/")
    for command in (("search", "index", more / "class00" / "0.png"), ("info", "index")):
        done = surefind(*command)
        said = "stale: the gallery has 432 images and had 144 when calibrated; nothing is guarant"
        assert f"warning: {said}" in done.out + done.err
