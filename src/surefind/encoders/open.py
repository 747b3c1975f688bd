"""Open an encoder by name, folder or file, or make one of a function."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from surefind.embeddings import LARGEST, POINT_VAR, Gaussians
from surefind.encoders.backbone import known_backbones
from surefind.encoders.config import EncoderConfig
from surefind.encoders.encoder import Encoder
from surefind.encoders.image_encoder import ImageEncoder
from surefind.encoders.serialization import EXPORT, ONNX, read_export
from surefind.errors import InvalidArgument, InvalidFile
from surefind.images.loader import Batch
from surefind.text import printable
from surefind.validation import check_choice, check_whole, nearest

DEFAULT_MODEL = "mobilenetv2_100"  # small, and quick on a CPU
CALLABLE = "callable:"  # prefix of fingerprints
RUNTIMES = {"torch": "", "onnx": "fp32", "onnx-int8": "int8"}  # precision of the export

Embed = Callable[[list[Image.Image]], Any]
Model = ImageEncoder | Embed | str | Path


def open_encoder(
    model: Model, weights: str | Path | None = None, *, runtime: str = "torch", device: str = "cpu"
) -> ImageEncoder:
    """Open an encoder.

    Args:
        model: an encoder; a function as for `from_callable`; a model folder; `owner/name` on the
            Hugging Face hub; an ONNX file or folder that surefind wrote; or the name of a timm
            backbone, used as it was published.
        weights: local safetensors file for a timm backbone.
        runtime: "torch", "onnx" or "onnx-int8", for a model folder or the hub.
        device: torch's; ONNX Runtime uses the CPU.

    Raises:
        InvalidArgument: if the name is not known, or an option does not fit the model.
        InvalidFile: if a model is not there or damaged.
    """
    check_choice("runtime", runtime, tuple(RUNTIMES))
    named = _is_timm_name(model)
    if weights is not None and not named:
        raise InvalidArgument("weights", expected="the name of a timm backbone with them", got=str(model))
    if named:
        if runtime != "torch":
            raise InvalidArgument("runtime", expected=f"torch for {model}, which is not exported", got=runtime)
        return Encoder.pretrained(str(model), weights=weights).to(device)
    if isinstance(model, ImageEncoder):
        return model
    if not isinstance(model, str | Path):
        return _of_function(model)
    path = Path(model)
    if path.suffix == ".onnx" or (path / EXPORT).is_file():
        return _exported(path)
    if runtime == "torch":
        return Encoder.load(model).to(device)
    from surefind.encoders.onnx import OnnxEncoder

    return OnnxEncoder.load(model, RUNTIMES[runtime])


def _is_timm_name(model: object) -> bool:
    """Whether a text is the name of a backbone; raise InvalidArgument if it cannot be anything."""
    if not isinstance(model, str) or "/" in model or Path(model).exists():
        return False
    if model.endswith(".onnx"):
        return False
    if model in known_backbones():
        return True
    near = nearest(model, known_backbones())
    raise InvalidArgument(
        "model",
        expected="a model folder, owner/name on the hub, an ONNX export or a timm name",
        got=repr(model),
        fix=f"did you mean {near!r}?" if near else None,
    )


def _exported(path: Path) -> ImageEncoder:
    """Load the ONNX export in a folder `onnx`, fp32, or the one in a file."""
    from surefind.encoders.onnx import OnnxEncoder

    if path.suffix != ".onnx":
        return OnnxEncoder.load(path.parent)
    if not path.is_file():
        raise InvalidFile(f"{path}: no such file")
    model = path.absolute().parent.parent
    if path == model / ONNX / path.name and (path.parent / EXPORT).is_file():
        precision = "int8" if path.name.startswith("model_int8") else "fp32"
        if read_export(model, precision).name(precision) == path.name:
            return OnnxEncoder.load(model, precision)
    raise InvalidFile(
        f"{path} was not written by `surefind export`, so its preprocessing is not known",
        fix="wrap it: surefind.encoders.from_callable(function, dim=..., name=...)",
    )


def from_callable(
    function: Embed, *, dim: int, name: str, normalise: bool = True, batch_size: int = 16
) -> "CallableEncoder":
    """Make an encoder of any function that turns images into vectors; its `var` is `POINT_VAR`, 1e-8.

    An index of it keeps name and dimension, not the function: open it with
    `Index.open(folder, encoder=...)` to search with images.

    Args:
        function: takes a list of RGB Pillow images in their own sizes, returns an array or tensor
            (N, dim). It is called by one thread at a time.
        dim: length of a vector.
        name: identifies the model and its version: vectors of one name are comparable.
        normalise: whether vectors are divided by their length, as for cosine similarity.
        batch_size: images per call, at most.

    Raises:
        InvalidArgument: if an argument is not valid; in `encode`, if the function returns
            something else.

    >>> brightness = lambda images: [[np.mean(image), 1.0] for image in images]
    >>> encoder = from_callable(brightness, dim=2, name="brightness")
    >>> encoder.encode(np.zeros((8, 8, 3), np.uint8)).mean
    tensor([[0., 1.]])
    """
    return CallableEncoder(function, dim=dim, name=name, normalise=normalise, batch_size=batch_size)


class CallableEncoder(ImageEncoder):
    """Encoder that calls a function; made by `from_callable`."""

    runtime = "callable"
    cores = 1  # one call at a time
    largest_batch = 16

    def __init__(self, function: Embed, *, dim: int, name: str, normalise: bool, batch_size: int) -> None:
        check_whole("batch_size", batch_size)
        if not name or printable(str(name)) != name:
            raise InvalidArgument("name", expected="a text in one line", got=repr(name))
        self.config = EncoderConfig(name, dim=dim, family="point")
        self.function, self.normalise, self.largest_batch = function, normalise, batch_size

    @property
    def fingerprint(self) -> str:
        return f"{CALLABLE}{self.config.backbone}:{self.config.dim}"

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def evaluating(self) -> AbstractContextManager[None]:
        return nullcontext()

    @property
    def resize(self) -> Callable[[Tensor], Tensor]:
        return lambda pixels: pixels

    def embed_batch(self, batch: Batch) -> Gaussians:
        return self.embed_pixels(batch.images)

    def embed_pixels(self, pixels: Tensor | Sequence[Tensor]) -> Gaussians:
        """Embed uint8 images (3, H, W): the function has its own normalisation."""
        pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in pixels]
        with torch.no_grad():
            vectors = _numbers(self.function(pictures))
        shape = (len(pictures), self.config.dim)
        if vectors.shape != shape or not bool((vectors.abs() <= LARGEST).all()):
            raise InvalidArgument(
                self.config.backbone,
                expected=f"finite vectors of shape {shape} from the function",
                got=f"shape {tuple(vectors.shape)}" + ("" if vectors.shape != shape else ", with others in it"),
            )
        mean = functional.normalize(vectors, dim=1) if self.normalise else vectors
        return Gaussians(mean, torch.full((len(pictures),), POINT_VAR))


def _of_function(function: Embed) -> CallableEncoder:
    """Make an encoder; a test image shows the dimension."""
    if not callable(function):
        raise InvalidArgument("model", expected="an encoder, a function or a name", got=type(function).__name__)
    shape = _numbers(function([Image.new("RGB", (224, 224), "grey")])).shape
    if len(shape) != 2:
        raise InvalidArgument("model", expected="a function that returns (N, D)", got=str(shape))
    name = str(getattr(function, "__qualname__", type(function).__name__))
    return from_callable(function, dim=shape[1], name=name)


def _numbers(vectors: object) -> Tensor:
    """Convert what a function returned to float32 on the CPU."""
    if isinstance(vectors, Tensor):
        return vectors.detach().cpu().float()
    return torch.from_numpy(np.array(vectors, dtype=np.float32))
