"""surefind encode: write embeddings of images to a file."""

import json
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

from typer import Option

from surefind.cli.options import (
    DataArgument,
    JsonOption,
    MaxBadShareOption,
    ModelArgument,
    RuntimeOption,
    SplitOption,
    split_of,
)
from surefind.cli.output import print_some, rejected_as_json, stages
from surefind.errors import InvalidArgument, SurefindError


def encode(
    model: ModelArgument,
    images: DataArgument,
    output: Annotated[Path, Option("--output", "-o", help="A .safetensors or .npz file to write.")],
    runtime: RuntimeOption = "torch",
    split: SplitOption = "all",
    max_bad_share: MaxBadShareOption = 0.05,
    as_json: JsonOption = False,
) -> None:
    """Write the embeddings of images to a file.

    A .npz file has the arrays ids, vectors (the means), var and labels, if known; surefind upgrade
    reads it. A .safetensors file is read by Embeddings.load.

    Examples:
        surefind encode model photos/ -o photos.npz
        surefind encode model photos/ -o photos.safetensors --runtime onnx
    """
    import numpy as np

    from surefind.distributed import own_device
    from surefind.encoders.open import open_encoder
    from surefind.storage import make_writable, whole_file
    from surefind.text import printable

    if output.suffix.lower() not in (".safetensors", ".npz"):
        raise InvalidArgument("--output", expected="a .safetensors or .npz file", got=str(output))
    make_writable(output.parent)
    catalog = split_of(images, split)
    encoder = open_encoder(model, runtime=runtime, device=own_device())
    started = perf_counter()
    with stages() as progress:
        progress("encoding images", 0, len(catalog))
        encoded = encoder.encode_all(
            catalog.files,
            max_bad_share=max_bad_share,
            progress=lambda done: progress("encoding images", done, len(catalog)),
        )
    embeddings, rejected = encoded.embeddings, encoded.rejected
    count, seconds = len(embeddings), perf_counter() - started
    if not count:
        raise SurefindError(f"none of the {len(catalog)} images could be read")
    catalog = catalog.select(encoded.rows.numpy())
    columns = {"ids": catalog.ids} | ({"labels": catalog.labels} if catalog.labels else {})
    if output.suffix.lower() == ".safetensors":  # its metadata are text
        about = {name: json.dumps(values) for name, values in columns.items()}
        embeddings.save(output, about=about | {"fingerprint": encoder.fingerprint})
    else:
        arrays: dict[str, Any] = {**columns, "vectors": embeddings.mean.numpy(), "family": embeddings.family}
        if encoder.has_variance:
            arrays["var"] = embeddings.var.numpy()
        with whole_file(output) as file:
            np.savez(file, **arrays, fingerprint=encoder.fingerprint)
    if as_json:
        facts = {
            "file": str(output),
            "images": count,
            "rejected": rejected_as_json(rejected),
            "seconds": round(seconds, 3),
            "images_per_second": round(count / seconds, 1),
            "fingerprint": encoder.fingerprint,
        }
        print(json.dumps(facts))
        return
    rate = f"{count / seconds:,.0f} images/s"
    print(f"{printable(str(output))}: {count:,} images in {seconds:.1f} s ({rate})")
    print_some("could not be read", [f"{bad.path}: {bad.reason}" for bad in rejected])
