"""An export belongs to its weights, and is whole or refused."""

import json
import shutil
from pathlib import Path

import pytest
from faulty_disk import failing_disk

from surefind.encoders import Encoder, onnx
from surefind.encoders.onnx import OnnxEncoder, export_onnx
from surefind.encoders.open import open_encoder
from surefind.encoders.serialization import read_content, read_export, write_export
from surefind.errors import InvalidArgument, InvalidFile, SurefindError


def test_float32_has_the_fingerprint_of_its_model_and_int8_its_own(exported: Path):
    assert OnnxEncoder.load(exported).fingerprint == Encoder.load(exported).fingerprint
    own = OnnxEncoder.load(exported, "int8").fingerprint
    model, _, rest = own.partition("-int8-")
    assert model == Encoder.load(exported).fingerprint
    assert len(rest) == 12
    assert rest == read_export(exported, "int8").digests["int8"][:12]


def test_a_runtime_is_chosen_by_name(exported: Path):
    assert isinstance(open_encoder(exported), Encoder)
    assert open_encoder(exported, runtime="onnx").precision == "fp32"
    assert open_encoder(exported, runtime="onnx-int8").precision == "int8"
    with pytest.raises(InvalidArgument, match="onnx-int8"):
        open_encoder(exported, runtime="onnx-int4")


def test_a_model_that_was_not_exported_says_how_to(model: Path):
    with pytest.raises(InvalidFile, match=f"surefind export {model} --onnx$"):
        OnnxEncoder.load(model)
    with pytest.raises(InvalidFile, match="--onnx --int8 IMAGES"):
        OnnxEncoder.load(model, "int8")


def test_the_export_of_older_weights_is_refused(own_export: Path):
    Encoder.create(Encoder.load(own_export).config, seed=7).save(own_export)
    with pytest.raises(InvalidFile, match="from other weights.*\n.*export again: surefind export"):
        OnnxEncoder.load(own_export)


@pytest.mark.parametrize("name", ["model-*", "export.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_export_is_refused(own_export: Path, name: str, damage: str):
    (path,) = (own_export / "onnx").glob(name)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "cut": whole[:middle],
            "changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "empty": b"",
        }[damage]
    )
    with pytest.raises(InvalidFile, match="export again"):
        OnnxEncoder.load(own_export)


def test_what_onnx_runtime_cannot_run_is_told(own_export: Path):
    write_export(own_export, Encoder.load(own_export).fingerprint, {"fp32": (b"nonsense", {})})
    with pytest.raises(InvalidFile, match="cannot run the export"):
        OnnxEncoder.load(own_export)


def test_exporting_float32_again_keeps_the_int8_of_the_same_weights(own_export: Path):
    before = OnnxEncoder.load(own_export, "int8").fingerprint
    write_export(own_export, Encoder.load(own_export).fingerprint, {"fp32": (b"new", {})})
    assert OnnxEncoder.load(own_export, "int8").fingerprint == before


def test_exporting_other_weights_forgets_the_older_int8(own_export: Path):
    other = Encoder.create(Encoder.load(own_export).config, seed=7)
    other.save(own_export)
    write_export(own_export, other.fingerprint, {"fp32": (b"new", {})})
    assert not list((own_export / "onnx").glob("model_int8-*"))
    assert read_content(own_export, "fp32", read_export(own_export, "fp32")) == b"new"
    with pytest.raises(InvalidFile, match="no ONNX export"):
        OnnxEncoder.load(own_export, "int8")


def test_wherever_writing_stops_the_older_export_or_the_new_one_is_whole(exported: Path, tmp_path: Path):
    older = read_content(exported, "fp32", read_export(exported, "fp32"))
    fingerprint, outcomes = Encoder.load(exported).fingerprint, set()
    for step in range(100):
        folder = Path(shutil.copytree(exported, tmp_path / str(step)))
        try:
            with failing_disk(at=step, on=True) as steps:
                write_export(folder, fingerprint, {"fp32": (b"new", {}), "int8": (b"too", {})})
        except SurefindError:
            pass
        found = read_export(folder, "fp32")
        contents = {name: read_content(folder, name, found) for name in ("fp32", "int8")}
        assert (contents["fp32"] == older) == (contents["int8"] != b"too")
        outcomes.add(contents["fp32"])
        if len(steps) <= step:
            break
    assert outcomes == {older, b"new"}
    names = sorted(path.name.partition("-")[0] for path in (folder / "onnx").iterdir())
    assert names == ["export.json", "model", "model_int8"]


def test_an_export_goes_with_a_copy_of_the_model(exported: Path, tmp_path: Path):
    for precision in ("fp32", "int8"):
        encoder = OnnxEncoder.load(exported, precision)
        encoder.save(tmp_path / precision)
        assert OnnxEncoder.load(tmp_path / precision, precision).fingerprint == encoder.fingerprint
        assert Encoder.load(tmp_path / precision).fingerprint == Encoder.load(exported).fingerprint


def test_export_json_says_how_far_the_files_are_from_the_model(exported: Path):
    files = json.loads((exported / "onnx" / "export.json").read_text())["files"]
    assert files["fp32"]["facts"]["parity"]["mean_largest"] < 1e-4
    assert files["int8"]["facts"]["parity"]["images"] == 48
    assert files["int8"]["facts"]["images"] == "queries"


def test_without_the_package_the_extra_is_named(exported: Path, monkeypatch):
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(onnx, "import_module", missing)
    with pytest.raises(SurefindError, match=r"pip install 'surefind\[onnx\]'"):
        OnnxEncoder.load(exported)
    with pytest.raises(SurefindError, match=r"pip install 'surefind\[onnx\]'"):
        export_onnx(exported)
