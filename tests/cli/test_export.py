"""surefind export, and the commands that run what it wrote."""

import json
import re
import shutil
from pathlib import Path

import pytest

from surefind.encoders import Encoder
from surefind.encoders import onnx as exporting
from surefind.encoders.onnx import OnnxEncoder
from surefind.encoders.serialization import write_export
from surefind.errors import InvalidArgument
from surefind.search.index import Index
from surefind.serve import server


@pytest.fixture(scope="session")
def int8_index(exported: Path, gallery: Path, tmp_path_factory) -> Path:
    """Not to be changed."""
    folder = tmp_path_factory.mktemp("int8") / "index"
    Index.create(folder, OnnxEncoder.load(exported, "int8"), gallery).close()
    return folder


def test_the_first_minute(surefind, model: Path, gallery: Path, tmp_path: Path):
    own = shutil.copytree(model, tmp_path / "model")
    done = surefind("export", "model", "--onnx", "--int8", gallery, "--images", 8)
    assert done.code == 0, done.err
    for name in ("model", "model_int8"):
        assert re.search(rf"model/onnx/{name}-[0-9a-f]{{16}}\.onnx: ", done.out)
    assert "on 8 images" in done.out
    stages = done.err.splitlines()
    assert (stages[0], stages[-1]) == ("reading images", "writing")
    for precision in ("fp32", "int8"):
        OnnxEncoder.load(own, precision)
    written = (own / "onnx" / "export.json").read_text()
    assert f'"images": "{gallery.name}"' in written
    assert str(gallery.parent) not in written  # it may be shared


def test_the_result_as_json_and_an_index_by_its_name(
    surefind, finished: Path, exported: Path, tmp_path: Path, monkeypatch
):
    graph = next((exported / "onnx").glob("model-*")).read_bytes()  # of the same weights
    monkeypatch.setattr(exporting, "onnx_graph", lambda encoder: graph)
    shutil.copytree(finished, tmp_path / "index")
    done = surefind("export", "index", "--onnx", "--json")
    facts = json.loads(done.out)
    assert facts["model"] == "index/model"
    assert facts["files"]["fp32"]["mean_largest"] < 1e-4
    assert list(facts["files"]) == ["fp32"]
    OnnxEncoder.load(tmp_path / "index" / "model")


def test_float32_and_torch_share_an_index(surefind, exported: Path, gallery: Path):
    assert surefind("index", gallery, "--model", exported, "-o", "a", "--runtime", "onnx").code == 0
    done = surefind("index", gallery, "--model", exported, "-o", "a", "--json")
    assert json.loads(done.out)["known"] == 20
    with Index.open("a") as index:
        assert isinstance(index.encoder, Encoder)
        assert index.search(gallery / "class01" / "2.png").hits[0].id == "class01/2.png"


def test_an_index_of_int8_opens_with_int8_and_continues_with_nothing_else(
    surefind, exported: Path, int8_index: Path, finished: Path, gallery: Path
):
    with Index.open(int8_index) as index:
        assert isinstance(index.encoder, OnnxEncoder)
        assert index.encoder.precision == "int8"
        hit = index.search(gallery / "class01" / "2.png").hits[0]
        assert (hit.id, hit.distance) == ("class01/2.png", pytest.approx(0, abs=1e-6))
    shutil.copytree(int8_index, "own")
    again = surefind("index", gallery, "--model", exported, "-o", "own", "--runtime", "onnx-int8", "--json")
    assert json.loads(again.out)["known"] == 20
    torch_too = surefind("index", gallery, "--model", exported, "-o", "own")
    assert torch_too.code == 1
    assert "--runtime onnx-int8" in torch_too.err
    shutil.copytree(finished, "other")
    other = surefind("index", gallery, "--model", exported, "-o", "other", "--runtime", "onnx-int8")
    assert other.code == 1
    assert "an int8 export needs a new index" in other.err


def test_a_new_export_is_not_mistaken_for_the_one_that_made_an_index(own_export: Path, int8_index: Path):
    made = next((own_export / "onnx").glob("model-*")).read_bytes()
    write_export(own_export, Encoder.load(own_export).fingerprint, {"int8": (made, {})})
    with pytest.raises(InvalidArgument, match="exported anew"):
        Index.open(int8_index, encoder=OnnxEncoder.load(own_export, "int8"))


def test_dropout_passes_need_torch(surefind, exported: Path, gallery: Path):
    done = surefind("evaluate", exported, gallery, "-o", "r", "--runtime", "onnx", "--mc-passes", 5)
    assert done.code == 1
    assert "has no dropout" in done.err


def test_serve_takes_the_runtime_or_prints_how_to_export(
    surefind, exported: Path, finished: Path, gallery, monkeypatch
):
    done = surefind("serve", finished, "--port", 0, "--runtime", "onnx")
    assert done.code == 1
    assert f"surefind export {finished / 'model'} --onnx" in done.err
    Index.create("index", OnnxEncoder.load(exported), gallery).close()
    seen = []
    monkeypatch.setattr(server, "serve", lambda index, *_, **__: seen.append(index.encoder))
    surefind("serve", "index", "--port", 0, "--runtime", "onnx")
    surefind("serve", "index", "--port", 0)
    assert [type(encoder) for encoder in seen] == [OnnxEncoder, Encoder]
