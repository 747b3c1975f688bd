"""The packages of the extra `onnx`, imported when they are first needed and nowhere else."""

from importlib import import_module
from types import ModuleType

from surefind.errors import SurefindError


def onnxruntime() -> ModuleType:
    """Runs an exported model."""
    return _import("onnxruntime")


def quantization() -> ModuleType:
    """Makes one of whole numbers."""
    _import("onnx")
    return _import("onnxruntime.quantization")


def onnx() -> ModuleType:
    """Reads and writes one."""
    return _import("onnx")


def check_exporting() -> None:
    """Before a model is loaded: everything that exporting takes is installed."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        _import(name)


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise SurefindError(
            f"{missing.name} is not installed", fix="pip install 'surefind[onnx]'"
        ) from missing
