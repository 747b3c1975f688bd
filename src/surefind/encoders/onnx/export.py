"""A model folder gets its ONNX files, once they are known to say what the model says."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from surefind.encoders.encoder import Encoder
from surefind.encoders.onnx.extra import check_exporting
from surefind.encoders.onnx.files import FOLDER, write_export
from surefind.encoders.onnx.graph import onnx_graph
from surefind.encoders.onnx.parity import Parity, check_parity, made_up_images, parity
from surefind.encoders.onnx.quantise import quantised
from surefind.encoders.onnx.runtime import OnnxEncoder
from surefind.errors import SurefindError
from surefind.images.decode import ImageSource
from surefind.images.loading import Loader

AT_ONCE = 8  # images in a batch
IMAGES = 200  # that show the range of activations

Tell = Callable[[str, int, int], None]  # what is done, how much of it, out of how much


class Made(NamedTuple):
    """One file that was written."""

    path: Path
    megabytes: float
    parity: Parity


def export_onnx(
    folder: str | Path,
    *,
    int8: Sequence[ImageSource] = (),
    source: str = "",
    tell: Tell = lambda *_: None,
) -> dict[str, Made]:
    """Write the ONNX files of a model, by precision: fp32, and int8 if images for it are given.

    The images also show how far the files are from the model; without any, made-up ones do.
    `source` is where they came from, to be written down.
    """
    check_exporting()
    folder = Path(folder)
    encoder = Encoder.load(folder)
    batches = _batches(encoder, int8, tell)
    tell("exporting", 0, 1)
    graph = onnx_graph(encoder)
    tell("comparing float32", 0, 1)
    found = {"fp32": parity(encoder, _run(graph, encoder), batches)}
    check_parity(found["fp32"])
    contents = {"fp32": graph}
    if int8:
        tell("quantising", 0, 1)
        contents["int8"] = quantised(graph, batches)
        tell("comparing int8", 0, 1)
        found["int8"] = parity(encoder, _run(contents["int8"], encoder), batches)
    facts: dict[str, Any] = {"images": source if int8 else "made up"}
    made = {
        precision: (content, {**facts, "parity": found[precision].as_dict()})
        for precision, content in contents.items()
    }
    tell("writing", 0, 1)
    files = write_export(folder, encoder.fingerprint, made).files
    return {
        precision: Made(
            folder / FOLDER / files[precision].name(precision),
            len(content) / 1e6,
            found[precision],
        )
        for precision, content in contents.items()
    }


def evenly(count: int, most: int) -> list[int]:
    """At most so many rows of a catalog, from its beginning to its end."""
    rows = np.linspace(0, count - 1, min(count, most)).round()
    return [int(row) for row in np.unique(rows)]


def _batches(encoder: Encoder, images: Sequence[ImageSource], tell: Tell) -> list[Tensor]:
    """Normalised pixels."""
    if not images:
        made_up = made_up_images(encoder.preprocessing.size)
        return list(encoder.prepare(made_up).split(AT_ONCE))
    batches = []
    for batch in Loader(images, encoder.preprocessing, batch_size=AT_ONCE):
        tell("reading images", int(batch.rows[-1]) + 1, len(images))
        batches.append(encoder.prepare(batch.pixels))
    if not batches:
        raise SurefindError("none of the images could be read", fix="name others with --int8")
    return batches


def _run(graph: bytes, encoder: Encoder) -> OnnxEncoder:
    return OnnxEncoder(graph, encoder.config, fingerprint=encoder.fingerprint)
