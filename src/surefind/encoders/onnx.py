"""ONNX: export an encoder in float32 and int8, check parity, and run exports with ONNX Runtime."""

import logging
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from surefind.embeddings import Embeddings
from surefind.encoders.config import EncoderConfig
from surefind.encoders.encoder import Encoder
from surefind.encoders.hub import model_folder
from surefind.encoders.image_encoder import ImageEncoder
from surefind.encoders.serialization import (
    ONNX,
    PRECISIONS,
    read_classes,
    read_config,
    read_content,
    read_export,
    write_export,
)
from surefind.errors import InvalidFile, SurefindError
from surefind.images.decode import ImageSource
from surefind.images.loader import Loader
from surefind.validation import check_choice

IMAGES = 200  # for the range of activations
TOLERANCE = 1e-3  # of float32; rounding is about 1e-6
LEAST_COSINE = 0.95  # of int8, median: ResNet-50 has 0.99 and loses 0.006 of R@1, MobileNetV2 0.88
_AT_ONCE = 8  # images in a batch
_MOST_BYTES = 2_000_000_000  # of an ONNX file that holds its own weights
_QUANTISED = ["Conv", "MatMul", "Gemm", "Add", "MaxPool", "Relu", "Clip"]

Tell = Callable[[str, int, int], None]  # stage, done, total
PIXELS, MEAN, VAR = "pixels", "embedding_mean", "embedding_var"  # names in the graph


class OnnxEncoder(ImageEncoder):
    """Encoder that runs the ONNX export of a model folder; made by `load`.

    In fp32, embeddings and fingerprint are those of `Encoder`. In int8 they differ, and are only
    comparable with each other.
    """

    runtime = "onnx"

    def __init__(self, content: bytes, config: EncoderConfig, *, fingerprint: str) -> None:
        assert config.preprocessing is not None  # always set in a saved model
        self.config, self.preprocessing = config, config.preprocessing
        self.precision = "fp32"
        self._fingerprint = fingerprint
        self._folder: Path | None = None  # that it was loaded from
        package = require("onnxruntime")
        options = package.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # each core has a batch of its own
        options.log_severity_level = 3  # errors, which are raised as well
        try:
            self._session = package.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # of many kinds
            raise InvalidFile(
                f"this ONNX Runtime ({package.__version__}) cannot run the export: {error}",
                fix="pip install -U onnxruntime, or export again",
            ) from error

    @classmethod
    def load(cls, model: str | Path, precision: str = "fp32") -> Self:
        """Load the export of a model, "fp32" or "int8".

        `model` is a folder or `owner/name` on the Hugging Face hub.
        """
        check_choice("precision", precision, PRECISIONS)
        require("onnxruntime")
        folder = model_folder(model, onnx=True)
        saved, exported = read_config(folder), read_export(folder, precision)
        content = read_content(folder, precision, exported)
        own = exported.fingerprint_of(precision)
        encoder = cls(content, saved.config, fingerprint=own)
        encoder.trained_with = read_classes(folder)
        encoder.precision, encoder._folder = precision, folder
        return encoder

    def save(self, folder: str | Path) -> None:
        """Copy the model and the export that it was loaded from."""
        folder = Path(folder)
        assert self._folder is not None  # made by `load`
        if folder.resolve() == self._folder.resolve():
            return
        exported = read_export(self._folder, self.precision)
        if exported.fingerprint_of(self.precision) != self.fingerprint:
            raise InvalidFile(f"{self._folder} was exported again since it was loaded")
        content = read_content(self._folder, self.precision, exported)
        Encoder.load(self._folder).save(folder)
        write_export(folder, exported.fingerprint, {self.precision: (content, exported.facts[self.precision])})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the folder that it was loaded from."""
        return type(self).load, (self._folder, self.precision)

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def largest_batch(self) -> int:
        return super().largest_batch * (2 if self.precision == "int8" else 1)  # its activations are smaller

    def evaluating(self) -> AbstractContextManager[None]:
        return nullcontext()

    def embed_pixels(self, pixels: Tensor) -> Embeddings:
        given = {PIXELS: pixels.float().numpy(force=True)}
        mean, var = map(torch.from_numpy, self._session.run([MEAN, VAR], given))
        return self.config.distributions(mean, var)


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
        other = OnnxEncoder(content, encoder.config, fingerprint=encoder.fingerprint)
        found[precision] = parity(encoder, other, batches)
    for precision, far in found.items():
        check_parity(precision, far)
    tell("writing", 0, 1)
    images = source if int8 else "synthetic"
    made = {
        precision: (content, {"images": images, "parity": found[precision]._asdict()})
        for precision, content in contents.items()
    }
    exported = write_export(folder, encoder.fingerprint, made)
    return {
        precision: ExportResult(folder / ONNX / exported.name(precision), len(content) / 1e6, found[precision])
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


def check_parity(precision: str, found: Parity) -> None:
    """Raise SurefindError if an export differs too much from the model."""
    if precision == "int8":
        if not found.cosine_typical >= LEAST_COSINE:  # nor if NaN
            raise SurefindError(
                f"int8 changes this model too much: its means have a median cosine of {found.cosine_typical:.3f} to "
                f"those of the model, at least {LEAST_COSINE} is needed; nothing was written",
                fix="export without --int8, or use a backbone without depthwise convolutions, such as a ResNet",
            )
        return
    worst = max(found.mean_largest, found.var_largest)
    if not (found.mean_largest <= TOLERANCE and found.var_largest <= TOLERANCE):
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


def require(name: str) -> ModuleType:
    """Import a module of the extra `onnx`, or raise SurefindError."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise SurefindError(f"{missing.name} is not installed", fix="pip install 'surefind[onnx]'") from missing


def check_exporting() -> None:
    """Raise SurefindError if a package for exporting is missing."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        require(name)
