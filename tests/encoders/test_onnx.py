"""An export says what the model says."""

from pathlib import Path

import pytest
import torch

from surefind.encoders import Encoder
from surefind.encoders import onnx as exporting
from surefind.encoders.onnx import (
    TOLERANCE,
    OnnxEncoder,
    Parity,
    check_parity,
    evenly,
    export_onnx,
    parity,
    synthetic_images,
)
from surefind.errors import SurefindError


@pytest.mark.parametrize("count", range(1, 6))
def test_any_number_of_images_is_embedded_as_by_torch(exported_family: Path, count: int):
    model, onnx = Encoder.load(exported_family), OnnxEncoder.load(exported_family)
    pixels = torch.randn(count, 3, 16, 16, generator=torch.Generator().manual_seed(count))
    with torch.inference_mode():
        wanted = model.embed_pixels(pixels)
    found = onnx.embed_pixels(pixels)
    assert type(found) is type(wanted)
    assert torch.allclose(found.mean, wanted.mean, atol=1e-5)
    assert torch.allclose(found.spread, wanted.spread, rtol=1e-4)


def test_int8_is_near_the_model_but_not_the_same(exported_family: Path):
    model, small = Encoder.load(exported_family), OnnxEncoder.load(exported_family, "int8")
    far = parity(model, small, [model.prepare(synthetic_images(16, 8))])
    assert far.cosine_least > 0.95
    assert far.mean_largest > 1e-4
    assert far.var_largest < 0.2


def test_what_travels_with_a_model_travels_with_its_export(exported_family: Path):
    model = Encoder.load(exported_family)
    for precision in ("fp32", "int8"):
        onnx = OnnxEncoder.load(exported_family, precision)
        assert onnx.preprocessing == model.preprocessing
        assert onnx.has_variance == model.has_variance
        assert onnx.trained_with == model.trained_with
        assert type(onnx.empty()) is type(model.empty())
        assert onnx.empty().dim == model.empty().dim


def test_parity_measures_what_was_changed(model: Path):
    encoder, other = Encoder.load(model), Encoder.load(model)
    batches = [encoder.prepare(synthetic_images(16, 4))] * 2
    same = parity(encoder, other, batches)
    assert same == Parity(8, 0, 0, pytest.approx(1), pytest.approx(1), 0, 0)
    with torch.no_grad():
        other.log_scale.add_(torch.tensor(1.1).log())
    longer = parity(encoder, other, batches)
    assert longer.mean_largest == pytest.approx(0.1, rel=1e-3)
    assert longer.cosine_least == pytest.approx(1)
    assert longer.var_largest == 0


@pytest.mark.parametrize("value", [2 * TOLERANCE, float("nan")])
def test_what_is_too_far_from_the_model_is_refused(value: float):
    right = Parity(8, 1e-6, 1e-6, 1.0, 1.0, 1e-6, 1e-6)
    for precision, wrong in (("fp32", "mean_largest"), ("fp32", "var_largest"), ("int8", "cosine_typical")):
        check_parity(precision, right)
        with pytest.raises(SurefindError, match="nothing was written"):
            check_parity(precision, right._replace(**{wrong: value}))
    check_parity("int8", right._replace(mean_largest=0.2))


def test_an_export_that_differs_is_not_written(own_export: Path, monkeypatch):
    before = {path: path.read_bytes() for path in (own_export / "onnx").iterdir()}
    wrong = next((own_export / "onnx").glob("model-*")).read_bytes()
    Encoder.create(Encoder.load(own_export).config, seed=5).save(own_export)
    monkeypatch.setattr(exporting, "onnx_graph", lambda encoder: wrong)
    with pytest.raises(SurefindError, match="differs from the model by up to"):
        export_onnx(own_export)
    assert {path: path.read_bytes() for path in (own_export / "onnx").iterdir()} == before


def test_images_are_taken_from_everywhere():
    assert evenly(5, 10) == [0, 1, 2, 3, 4]
    assert evenly(101, 3) == [0, 50, 100]
    assert len(evenly(1000, 200)) == 200
