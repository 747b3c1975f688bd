"""OnnxEncoder: run an exported encoder with ONNX Runtime."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.encoders.config import EncoderConfig
from surefind.encoders.encoder import Encoder
from surefind.encoders.hub import model_folder
from surefind.encoders.image_encoder import ImageEncoder
from surefind.encoders.onnx.files import MEAN, PIXELS, PRECISIONS, VAR, read_content, read_export, require, write_export
from surefind.encoders.serialization import read_classes, read_config
from surefind.errors import InvalidFile
from surefind.validation import check_choice

RUNTIMES = {"torch": "", "onnx": "fp32", "onnx-int8": "int8"}  # precision of the export


class OnnxEncoder(ImageEncoder):
    """Encoder that runs the ONNX export of a model folder; made by `load`.

    In fp32, embeddings and fingerprint are those of `Encoder`. In int8 they differ, and are only
    comparable with each other.
    """

    runtime = "onnx"

    def __init__(self, content: bytes, config: EncoderConfig, *, fingerprint: str, threads: int = 1) -> None:
        assert config.preprocessing is not None  # always set in a saved model
        self.config, self.preprocessing = config, config.preprocessing
        self.precision = "fp32"
        self._fingerprint = fingerprint
        self._folder: Path | None = None  # that it was loaded from
        package = require("onnxruntime")
        options = package.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3  # errors, which are raised as well
        try:
            self._session = package.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # of many kinds
            raise InvalidFile(
                f"this ONNX Runtime ({package.__version__}) cannot run the export: {error}",
                fix="pip install -U onnxruntime, or export again",
            ) from error

    @classmethod
    def load(cls, model: str | Path, precision: str = "fp32", *, threads: int = 1) -> Self:
        """Load the export of a model, "fp32" or "int8".

        `model` is a folder or `owner/name` on the Hugging Face hub. `threads` share one batch;
        with one, `encode` and the service embed a batch on every core.
        """
        check_choice("precision", precision, PRECISIONS)
        require("onnxruntime")
        folder = model_folder(model, onnx=True)
        saved, exported = read_config(folder), read_export(folder, precision)
        content = read_content(folder, precision, exported)
        own = exported.fingerprint_of(precision)
        encoder = cls(content, saved.config, fingerprint=own, threads=threads)
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
        facts = exported.files[self.precision].facts
        write_export(folder, exported.fingerprint, {self.precision: (content, facts)})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the folder that it was loaded from."""
        return type(self).load, (self._folder, self.precision)

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def evaluating(self) -> AbstractContextManager[None]:
        return nullcontext()

    def embed_pixels(self, pixels: Tensor) -> Embeddings:
        given = {PIXELS: pixels.float().numpy(force=True)}
        mean, var = map(torch.from_numpy, self._session.run([MEAN, VAR], given))
        return self.config.distributions(mean, var)
