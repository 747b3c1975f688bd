"""From an ONNX graph of float32 to one whose convolutions calculate with whole numbers.

Weights have 7 bits, one scale per channel, and activations 8: on processors without instructions
of their own for it, 8 and 8 would overflow 16 bits. The heads stay in float32: their logarithms
and exponentials, the mean and the variance.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from surefind.encoders.onnx import extra
from surefind.encoders.onnx.files import PIXELS

QUANTISED = ["Conv", "MatMul", "Gemm", "Add", "MaxPool", "Relu", "Clip"]


def quantised(graph: bytes, batches: Sequence[Tensor]) -> bytes:
    """The graph in int8; normalised pixels (N, 3, S, S) show which range each activation has."""
    package = extra.quantization()
    with TemporaryDirectory() as folder, _quiet():
        whole, simple, small = (
            Path(folder, f"{name}.onnx") for name in ("whole", "simple", "small")
        )
        whole.write_bytes(graph)
        package.shape_inference.quant_pre_process(whole, simple, skip_symbolic_shape=True)
        package.quantize_static(
            simple,
            small,
            _reader(package, batches),
            quant_format=package.QuantFormat.QDQ,
            op_types_to_quantize=QUANTISED,
            nodes_to_exclude=_heads(simple),
            activation_type=package.QuantType.QUInt8,
            weight_type=package.QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            calibrate_method=package.CalibrationMethod.MinMax,
        )
        return small.read_bytes()


def _heads(path: Path) -> list[str]:
    """Names of the nodes from the floor under the features on, with which pooling begins.

    In whole numbers that floor would be 0, which has no logarithm.
    """
    nodes = extra.onnx().load(path).graph.node
    makers = {name: node for node in nodes for name in node.output}
    starts = [node for node in nodes if node.op_type == "Log"]
    for node in list(starts):
        while node.op_type != "Clip" and node.input and node.input[0] in makers:
            node = makers[node.input[0]]
            starts.append(node)
    made = {name for node in starts for name in node.output}
    names = {node.name for node in starts}
    for node in nodes:  # in the order of their work
        if made & set(node.input):
            made |= set(node.output)
            names.add(node.name)
    return sorted(names)


def _reader(package: Any, batches: Sequence[Tensor]) -> Any:
    class Reader(package.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(batches)

        def get_next(self) -> dict[str, Any] | None:
            pixels = next(self.left, None)
            return None if pixels is None else {PIXELS: pixels.numpy()}

    return Reader()


@contextmanager
def _quiet() -> Iterator[None]:
    """ONNX Runtime logs advice that was followed already."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(before)
