"""The encoder of a model folder, run by torch or by ONNX Runtime."""

from pathlib import Path

from surefind.encoders.encoder import Encoder
from surefind.encoders.onnx.runtime import OnnxEncoder
from surefind.validation import check_choice

PRECISIONS = {"onnx": "fp32", "onnx-int8": "int8"}  # of the runtimes that are not torch
RUNTIMES = ("torch", *PRECISIONS)


def open_encoder(
    folder: str | Path, runtime: str = "torch", *, device: str = "cpu"
) -> Encoder | OnnxEncoder:
    """A saved model, ready to encode. `device` is torch's; ONNX Runtime uses the CPU."""
    check_choice("runtime", runtime, RUNTIMES)
    if runtime == "torch":
        return Encoder.load(folder).to(device)
    return OnnxEncoder.load(folder, PRECISIONS[runtime])
