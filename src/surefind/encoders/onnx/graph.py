"""From torch to an ONNX graph of float32: the numbers of the model, without torch."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from surefind.encoders.encoder import Encoder
from surefind.encoders.onnx.files import MEAN, PIXELS, VAR
from surefind.errors import SurefindError

OPSET = 20
EXAMPLES = 2  # a batch of one would be taken for a batch that is always one
MOST_BYTES = 2_000_000_000  # of an ONNX file that holds its own weights


def onnx_graph(encoder: Encoder) -> bytes:
    """Normalised pixels (N, 3, S, S), any N, to means (N, D) and variances (N,), as a file.

    Of von Mises-Fisher distributions the variance is 1 / kappa. Batch norm becomes part of the
    convolutions before it.
    """
    weights = sum(t.numel() * t.element_size() for t in encoder.state_dict().values())
    if weights > MOST_BYTES:
        raise SurefindError(
            f"the model has {weights / 1e9:.1f} GB of weights, an ONNX file holds 2",
            fix="choose a smaller backbone, or stay with --runtime torch",
        )
    size = encoder.preprocessing.size
    pixels = torch.zeros(EXAMPLES, 3, size, size)
    with encoder.evaluating(), torch.no_grad(), _quiet():
        program = torch.onnx.export(
            _Moments(encoder).eval(),
            (pixels,),
            dynamo=True,
            opset_version=OPSET,
            input_names=[PIXELS],
            output_names=[MEAN, VAR],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            external_data=False,
            verbose=False,
        )
    assert program is not None  # of dynamo
    content: bytes = program.model_proto.SerializeToString()
    return content


class _Moments(nn.Module):
    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        return self.encoder.moments(self.encoder.features(pixels))


@contextmanager
def _quiet() -> Iterator[None]:
    """torch warns of what it does itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*LeafSpec.*", category=FutureWarning)
        yield
