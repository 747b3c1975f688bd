"""surefind index as a user calls it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from class_folders import write_pictures
from safetensors.torch import save_file

from surefind.encoders.backbone import build_backbone
from surefind.encoders.open import DEFAULT_MODEL
from surefind.search import ingest
from surefind.search.index import Index

IMAGES = 20  # of the fixture


def started(folder: Path, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "surefind", *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
    )


def test_the_first_minute(model: Path, gallery: Path, tmp_path: Path):
    process = started(tmp_path, "index", gallery, "--model", model, "-o", "photos.index")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"{IMAGES} images added in " in out
    assert "images/s" in out
    assert f"photos.index: {IMAGES} images" in out
    lines = err.splitlines()
    assert lines[:2] == ["indexing", "searching labelled queries"]
    assert lines[2].startswith("warning: only 4 classes: ")
    with Index.open(tmp_path / "photos.index") as index:
        assert len(index) == IMAGES
        assert index.search(gallery / "class01" / "2.png").hits[0].id == "class01/2.png"


def test_duplicates_and_bad_images_are_listed_and_duplicates_kept_on_request(surefind, model: Path, photos: Path):
    copy = photos / "class00" / "[red]\x1bcopy.png"  # sorts last
    shutil.copy(photos / "class00" / "0.png", copy)
    (photos / "class01" / "broken.png").write_bytes(b"no picture")
    out = surefind("index", photos, "--model", model, "-o", "made").out
    assert "1 left out as duplicates:\n  class00/[red]�copy.png is a copy of class00/0.png" in out
    assert "1 could not be read:" in out and "broken.png: " in out
    assert "\x1b" not in out
    facts = json.loads(surefind("index", photos, "--model", model, "-o", "other", "--json").out)
    assert facts["index"] == "other"
    assert (facts["added"], facts["known"], facts["replaced"]) == (IMAGES, 0, 0)
    assert facts["duplicates"] == [["class00/[red]\x1bcopy.png", "class00/0.png"]]
    assert [Path(bad["path"]).name for bad in facts["rejected"]] == ["broken.png"]
    assert facts["rejected"][0]["reason"]
    assert (facts["stopped"], facts["removed"]) == (False, 0)
    assert facts["seconds"] > 0 and facts["images_per_second"] > 0
    done = surefind("index", photos, "--model", model, "-o", "third", "--duplicates", "keep", "--json")
    assert json.loads(done.out)["images"] == IMAGES + 1


def test_what_is_removed_is_not_added_again(surefind, model: Path, photos: Path, tmp_path: Path):
    surefind("index", photos, "--model", model, "-o", "made")
    gone = ["--remove", "class00/0.png", "--remove", "class03/4.png"]
    done = surefind("index", photos, "--model", model, "-o", "made", *gone)
    assert "2 removed" in done.out
    with Index.open(tmp_path / "made") as index:
        assert len(index) == IMAGES - 2
        found = index.search(photos / "class00" / "0.png", k=IMAGES).hits
        assert "class00/0.png" not in {hit.id for hit in found}


def test_a_list_of_files_that_are_gone_is_one_error(surefind, model: Path, photos: Path):
    """A list may name what a folder would not: 20 of these 24 images are not there."""
    there = [f"class00/{number}.png" for number in range(4)]
    gone = [f"class09/{number}.png" for number in range(20)]
    lines = ["path,label", *(f"{path},{path[:7]}" for path in there + gone)]
    (photos / "list.csv").write_text("\n".join(lines))
    done = surefind("index", photos / "list.csv", "--model", model, "-o", "made")
    assert done.code == 1
    assert done.err.startswith("indexing\nerror: 20 of 24 images cannot be used")
    assert "class09/0.png: " in done.err and "--max-bad-share 1" in done.err
    with Index.open(photos.parent / "made") as index:
        assert len(index) == 0
    allowed = ["--max-bad-share", "1", "--json"]
    facts = json.loads(surefind("index", photos / "list.csv", "--model", model, "-o", "made", *allowed).out)
    assert (facts["added"], facts["known"], len(facts["rejected"])) == (4, 0, 20)


def test_a_copy_stays_when_its_original_is_removed(surefind, model, photos, tmp_path):
    shutil.copy(photos / "class00" / "0.png", photos / "class00" / "copy.png")
    surefind("index", photos, "--model", model, "-o", "made")
    done = surefind("index", photos, "--model", model, "-o", "made", "--remove", "class00/0.png", "--json")
    facts = json.loads(done.out)
    assert (facts["added"], facts["removed"], facts["duplicates"]) == (1, 1, [])
    with Index.open(tmp_path / "made") as index:
        assert index.known(["class00/copy.png", "class00/0.png"]) == {"class00/copy.png"}


def test_a_folder_of_which_nothing_can_be_read_is_one_error(surefind, model: Path, tmp_path: Path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.png").write_bytes(b"no picture")
    done = surefind("index", "bad", "--model", model, "-o", "made", "--max-bad-share", "1")
    assert done.code == 1
    assert "none of the 1 images could be read" in done.err
    assert "surefind check bad" in done.err


def test_an_index_is_continued_as_it_was_made(surefind, model, gallery):
    surefind("index", gallery, "--model", model, "-o", "made")
    same = ["--ranking", "mean", "--engine", "faiss", "--kind", "auto"]
    assert surefind("index", gallery, "--model", model, "-o", "made", *same).code == 0
    for option, value, message in (
        ("--ranking", "expected", "--ranking: expected mean, the ranking of made"),
        ("--engine", "pgvector://localhost/db", "--engine: expected faiss"),
    ):
        done = surefind("index", gallery, "--model", model, "-o", "made", option, value)
        assert done.code == 1
        assert message in done.err


def test_an_unknown_engine_is_one_message_without_the_password(surefind, model, gallery, tmp_path):
    done = surefind("index", gallery, "--model", model, "-o", "made", "--engine", "pgvektor://me:secret@x")
    assert done.code == 1
    assert "did you mean 'pgvector'" in done.err
    assert "secret" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_finishes_a_chunk_and_the_same_command_goes_on(surefind, model: Path, gallery: Path, monkeypatch):
    monkeypatch.setattr(ingest, "CHUNK", 8)
    read = ingest.digest_of

    def interrupted(source):
        if Path(source).parts[-2:] == ("class02", "0.png"):  # in the second chunk
            signal.raise_signal(signal.SIGINT)
        return read(source)

    monkeypatch.setattr(ingest, "digest_of", interrupted)
    done = surefind("index", gallery, "--model", model, "-o", "made")
    assert done.code == 130
    assert "stopped; run the same command again to continue" in done.out
    assert "made: 16 images" in done.out
    monkeypatch.setattr(ingest, "digest_of", read)
    facts = json.loads(surefind("index", gallery, "--model", model, "-o", "made", "--json").out)
    assert (facts["added"], facts["known"], facts["images"]) == (IMAGES - 16, 16, IMAGES)


def test_the_index_is_compacted_unless_switched_off(surefind, model, gallery, monkeypatch):
    calls = []
    monkeypatch.setattr(Index, "compact", lambda index: calls.append(1))
    surefind("index", gallery, "--model", model, "-o", "made", "--no-compact")
    assert calls == []
    surefind("index", gallery, "--model", model, "-o", "made")
    assert calls == [1]


def test_warnings_of_the_index_go_to_stderr(surefind, model, gallery, monkeypatch):
    monkeypatch.setattr(Index, "warnings", ("version 7\x1b is damaged",))
    done = surefind("index", gallery, "--model", model, "-o", "made")
    assert "warning: version 7� is damaged\n" in done.err
    assert "warning" not in done.out
    facts = json.loads(surefind("index", gallery, "--model", model, "-o", "made", "--json").out)
    assert facts["warnings"] == ["version 7\x1b is damaged"]


def together(folder: Path, *arguments: object, processes: int = 2) -> list[tuple[int, str, str]]:
    """What torchrun does: the same command in several processes that know each other."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    world = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    runs = [started(folder, *arguments, **world, RANK=str(rank)) for rank in range(processes)]
    said = [one.communicate(timeout=100) for one in runs]
    return [(one.returncode, *texts) for one, texts in zip(runs, said, strict=True)]


def test_two_processes_share_the_images(model: Path, gallery: Path, tmp_path: Path):
    command = ("index", gallery, "--model", model, "-o", "made", "--json")
    (code, out, err), (other_code, other_out, other_err) = together(tmp_path, *command)
    assert (code, other_code) == (0, 0), err + other_err
    assert other_out == ""
    facts = json.loads(out)
    assert (facts["added"], facts["images"]) == (IMAGES, IMAGES)
    with Index.open(tmp_path / "made") as index:
        assert index.verify() == []
        for picture in ("class00/0.png", "class03/4.png"):
            assert index.search(gallery / picture).hits[0].id == picture


@pytest.mark.slow
def test_a_renamed_image_stays_if_another_process_replaces_its_file(model: Path, photos: Path):
    surefind = ("index", "photos", "--model", model, "-o", "made", "--replace", "--json")
    started(photos.parent, *surefind).communicate(timeout=100)
    old = photos / "class03" / "4.png"  # in the share of the second process
    old.rename(photos / "class00" / "5.png")  # in that of the first
    shutil.copy(write_pictures(photos.parent / "other", seed=7) / "class00" / "0.png", old)
    (code, out, err), _ = together(photos.parent, *surefind)
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["replaced"], facts["duplicates"], facts["images"]) == (1, [], IMAGES + 1)


def test_an_error_of_one_process_is_printed_once_and_ends_all(model: Path, photos: Path):
    for name in ("a", "b"):  # in the share of the second process
        (photos / "class03" / f"{name}.png").write_text(f"no picture: {name}")
    first, second = together(photos.parent, "index", "photos", "--model", model, "-o", "made")
    assert (first[0], second[0]) == (1, 1)
    assert "error: 2 of 11 images cannot be used" in first[2]
    assert second[1:] == ("", "")


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    """Random weights of the default model."""
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    save_file(build_backbone(DEFAULT_MODEL, pretrained=False).model.state_dict(), path)
    return path


def test_without_a_model_a_pretrained_one_is_used_and_kept_in_the_index(surefind, weights: Path, photos: Path):
    done = surefind("index", photos, "-o", "made", "--weights", weights)
    assert done.code == 0, done.err
    shutil.copy(photos / "class00" / "0.png", photos / "new.png")
    (photos / "new.png").write_bytes((photos / "new.png").read_bytes() + b" ")  # other content
    facts = json.loads(surefind("index", photos, "-o", "made", "--json").out)
    assert (facts["added"], facts["known"]) == (1, IMAGES)
    with Index.open("made") as index:
        assert index.encoder.config.backbone == DEFAULT_MODEL


def test_without_weights_and_network_the_remedy_can_be_pasted(
    surefind, monkeypatch, weights: Path, gallery: Path, tmp_path: Path
):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    done = surefind("index", gallery, "-o", "made")
    assert done.code == 1 and "add --weights FILE" in done.err
    assert surefind("index", gallery, "-o", "made", "--weights", weights, "--json").code == 0


def test_an_index_of_vectors_or_of_a_function_takes_no_images(surefind, gallery: Path):
    np.savez("vectors.npz", vectors=np.eye(4, dtype=np.float32))
    assert surefind("index", "vectors.npz", "-o", "vectors").code == 0
    done = surefind("index", gallery, "-o", "vectors")
    assert done.code == 1 and "has no model" in done.err
    Index.create("called", lambda images: np.ones((len(images), 3))).close()
    done = surefind("index", gallery, "-o", "called")
    assert done.code == 1 and "a function that is not saved with it" in done.err


def test_a_parquet_file_is_a_table_of_paths_or_holds_vectors(surefind, model: Path, photos: Path):
    import pyarrow
    from pyarrow import parquet

    paths = sorted(path.relative_to(photos).as_posix() for path in photos.rglob("*.png"))
    parquet.write_table(pyarrow.table({"path": paths}), photos / "images.parquet")
    vectors = pyarrow.array(np.random.default_rng(0).random((5, 4)).tolist())
    parquet.write_table(pyarrow.table({"path": paths[:5], "x": vectors}), "vectors.parquet")
    surefind("index", photos, "-o", "made", "--model", model, "--no-calibrate")
    facts = json.loads(surefind("index", photos / "images.parquet", "-o", "made", "--json").out)
    assert facts["known"] == IMAGES
    facts = json.loads(surefind("index", "vectors.parquet", "-o", "vectors", "--json").out)
    assert facts["images"] == 5
