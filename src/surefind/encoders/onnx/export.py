"""Export a model to ONNX in float32 and int8, and check parity with the model."""

import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from surefind.encoders.encoder import Encoder
from surefind.encoders.image_encoder import ImageEncoder
from surefind.encoders.onnx.files import FOLDER, MEAN, PIXELS, VAR, check_exporting, require, write_export
from surefind.encoders.onnx.runtime import OnnxEncoder
from surefind.errors import SurefindError
from surefind.images.decode import ImageSource
from surefind.images.loader import Loader

IMAGES = 200  # for the range of activations
TOLERANCE = 1e-3  # of float32; rounding is about 1e-6
_AT_ONCE = 8  # images in a batch
_MOST_BYTES = 2_000_000_000  # of an ONNX file that holds its own weights
_QUANTISED = ["Conv", "MatMul", "Gemm", "Add", "MaxPool", "Relu", "Clip"]

Tell = Callable[[str, int, int], None]  # stage, done, total


class Parity(NamedTuple):
    """Relative differences between an export and its model, over some images."""

    images: int
    mean_largest: float  # of the distance between two means, to the length of the model's
    mean_typical: float
    cosine_least: float  # between two means
    cosine_typical: float
    var_largest: float
    var_typical: float


class ExportResult(NamedTuple):
    """Exported file, its size and parity."""

    path: Path
    megabytes: float
    parity: Parity


def export_onnx(
    folder: str | Path, *, int8: Sequence[ImageSource] = (), source: str = "", tell: Tell = lambda *_: None
) -> dict[str, ExportResult]:
    """Export a model folder to ONNX, in fp32, and in int8 if images are given.

    The images (else synthetic ones) also measure parity; `source` is their origin, recorded in
    export.json. `tell` is called with the progress.
    """
    check_exporting()
    folder = Path(folder)
    encoder = Encoder.load(folder)
    batches = []
    if int8:
        for batch in Loader(int8, encoder.resize, batch_size=_AT_ONCE):
            tell("reading images", int(batch.rows[-1]) + 1, len(int8))
            batches.append(encoder.prepare(batch.pixels))
        if not batches:
            raise SurefindError("none of the images could be read", fix="use others with --int8")
    else:
        pixels = encoder.prepare(synthetic_images(encoder.preprocessing.size))
        batches.extend(pixels.split(_AT_ONCE))
    tell("exporting", 0, 1)
    contents = {"fp32": onnx_graph(encoder)}
    if int8:
        tell("quantising", 0, 1)
        contents["int8"] = quantised(contents["fp32"], batches)
    found = {}
    for precision, content in contents.items():
        tell(f"comparing {precision}", 0, 1)
        exported = OnnxEncoder(content, encoder.config, fingerprint=encoder.fingerprint)
        found[precision] = parity(encoder, exported, batches)
    check_parity(found["fp32"])
    tell("writing", 0, 1)
    images = source if int8 else "synthetic"
    made = {
        precision: (content, {"images": images, "parity": found[precision]._asdict()})
        for precision, content in contents.items()
    }
    files = write_export(folder, encoder.fingerprint, made).files
    return {
        precision: ExportResult(
            folder / FOLDER / files[precision].name(precision), len(content) / 1e6, found[precision]
        )
        for precision, content in contents.items()
    }


def evenly(count: int, most: int) -> list[int]:
    """Return at most `most` evenly spaced rows of `count`."""
    rows = np.linspace(0, count - 1, min(count, most)).round()
    return [int(row) for row in np.unique(rows)]


def onnx_graph(encoder: Encoder) -> bytes:
    """Export the graph: pixels (N, 3, S, S) to means (N, D) and variances (N,), for any N."""
    weights = sum(t.numel() * t.element_size() for t in encoder.state_dict().values())
    if weights > _MOST_BYTES:
        raise SurefindError(
            f"the model has {weights / 1e9:.1f} GB of weights, an ONNX file holds 2",
            fix="use a smaller backbone, or --runtime torch",
        )
    size = encoder.preprocessing.size
    pixels = torch.zeros(2, 3, size, size)  # a batch of 1 would be exported as a constant
    with encoder.evaluating(), torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*LeafSpec.*", category=FutureWarning)
        program = torch.onnx.export(
            _Moments(encoder).eval(),
            (pixels,),
            dynamo=True,
            opset_version=20,
            input_names=[PIXELS],
            output_names=[MEAN, VAR],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            external_data=False,
            verbose=False,
        )
    assert program is not None
    content: bytes = program.model_proto.SerializeToString()
    return content


class _Moments(nn.Module):
    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        return self.encoder.moments(self.encoder.features(pixels))


def quantised(graph: bytes, batches: Sequence[Tensor]) -> bytes:
    """Quantise a graph to int8, with ranges of activations from normalised pixels (N, 3, S, S).

    Weights have 7 bits, per channel, and activations 8: without VNNI instructions, 8 and 8 would
    overflow 16 bits. The heads stay in float32.
    """
    require("onnx")
    package: Any = require("onnxruntime.quantization")
    left = iter(batches)

    class Reader(package.CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, Any] | None:
            pixels = next(left, None)
            return None if pixels is None else {PIXELS: pixels.numpy()}

    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # ONNX Runtime logs advice that was followed already
    try:
        with TemporaryDirectory() as folder:
            whole, simple, small = (Path(folder, name) for name in ("whole", "simple", "small"))
            whole.write_bytes(graph)
            package.shape_inference.quant_pre_process(whole, simple, skip_symbolic_shape=True)
            package.quantize_static(
                simple,
                small,
                Reader(),
                quant_format=package.QuantFormat.QDQ,
                op_types_to_quantize=_QUANTISED,
                nodes_to_exclude=_heads(simple),
                activation_type=package.QuantType.QUInt8,
                weight_type=package.QuantType.QInt8,
                per_channel=True,
                reduce_range=True,
                calibrate_method=package.CalibrationMethod.MinMax,
            )
            return small.read_bytes()
    finally:
        root.setLevel(level)


def _heads(path: Path) -> list[str]:
    """Names of the nodes of the heads, from the clamp before the logarithm on."""
    nodes = require("onnx").load(path).graph.node
    makers = {name: node for node in nodes for name in node.output}
    starts = [node for node in nodes if node.op_type == "Log"]
    for node in list(starts):
        while node.op_type != "Clip" and node.input and node.input[0] in makers:
            node = makers[node.input[0]]
            starts.append(node)
    made = {name for node in starts for name in node.output}
    names = {node.name for node in starts}
    for node in nodes:  # in topological order
        if made & set(node.input):
            made |= set(node.output)
            names.add(node.name)
    return sorted(names)


@torch.inference_mode()
def parity(model: ImageEncoder, exported: ImageEncoder, batches: Sequence[Tensor]) -> Parity:
    """Compare two encoders on normalised pixels, batch by batch."""
    with model.evaluating():
        mean, var = _moments(model, batches)
    other, other_var = _moments(exported, batches)
    apart = (other - mean).norm(dim=1) / mean.norm(dim=1)
    cosine = functional.cosine_similarity(mean, other, dim=1)
    ratio = (other_var - var).abs() / var
    return Parity(
        images=len(mean),
        mean_largest=float(apart.max()),
        mean_typical=float(apart.median()),
        cosine_least=float(cosine.min()),
        cosine_typical=float(cosine.median()),
        var_largest=float(ratio.max()),
        var_typical=float(ratio.median()),
    )


def check_parity(found: Parity) -> None:
    """Raise SurefindError if a float32 export differs from the model."""
    worst = max(found.mean_largest, found.var_largest)
    if not (found.mean_largest <= TOLERANCE and found.var_largest <= TOLERANCE):  # nor if NaN
        raise SurefindError(
            f"the exported model differs from the model by up to {worst:.2g}, "
            f"at most {TOLERANCE:g} is allowed; nothing was written",
            fix="use --runtime torch, and report it with the output of surefind doctor",
        )


def synthetic_images(size: int, count: int = 16) -> Tensor:
    """Deterministic images of coloured clouds, uint8 (count, 3, size, size)."""
    random = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 4, 4, generator=random)
    fine = torch.rand(count, 3, size, size, generator=random)
    clouds = functional.interpolate(coarse, size=(size, size), mode="bilinear")
    return ((0.8 * clouds + 0.2 * fine) * 255).to(torch.uint8)


def _moments(encoder: ImageEncoder, batches: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Means and variances, in float64."""
    parts = [encoder.embed_pixels(pixels) for pixels in batches]
    return (torch.cat([part.mean for part in parts]).double(), torch.cat([part.var for part in parts]).double())
