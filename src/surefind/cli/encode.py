"""surefind encode: embeddings of images, in a file."""

import json
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.errors import InvalidArgument, SurefindError

if TYPE_CHECKING:
    from surefind.encoders.encoding import Encoded, ImageEncoder
    from surefind.images.catalog import Catalog

FORMATS = (".safetensors", ".npz")
SHOWN = 5  # rejected images that are named


def encode(
    model: Annotated[Path, typer.Argument(help="A model folder of surefind train.")],
    images: Annotated[str, typer.Argument(help="A folder, a CSV, NAME:FOLDER, or 'glyphs'.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .safetensors or .npz file to write.")
    ],
    runtime: Annotated[
        str, typer.Option(help="What encodes: torch, or its export: onnx or onnx-int8.")
    ] = "torch",
    part: Annotated[str, typer.Option(help="all of the data, train, val or test.")] = "all",
    max_bad_share: Annotated[
        float,
        typer.Option(min=0, max=1, help="Stop when more than this share cannot be read."),
    ] = 0.05,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write the embeddings of images to a file, whole or not at all.

    A .npz has the arrays ids, vectors (the means), var and labels, as far as they are known, and
    is what surefind upgrade reads; a .safetensors is what Embeddings.load reads.

    Examples:
        surefind encode model photos/ -o photos.npz
        surefind encode model photos/ -o photos.safetensors --runtime onnx
    """
    from surefind.cli.embeddings_file import write_embeddings
    from surefind.cli.parts import PARTS, part_of
    from surefind.encoders.device import own_device
    from surefind.encoders.onnx.opening import RUNTIMES, open_encoder
    from surefind.files import make_writable
    from surefind.validation import check_choice

    check_choice("--runtime", runtime, RUNTIMES)
    check_choice("--part", part, PARTS)
    if output.suffix.lower() not in FORMATS:
        raise InvalidArgument(
            "--output", expected="a .safetensors or .npz file", got=str(output), fix="-o images.npz"
        )
    make_writable(output.parent)
    catalog = part_of(images, part)
    encoder = open_encoder(model, runtime, device=own_device())
    started = perf_counter()
    encoded = _encode(encoder, catalog, max_bad_share)
    seconds = perf_counter() - started
    kept = catalog.select(encoded.rows.numpy())
    write_embeddings(output, encoded.embeddings, kept, encoder)
    if as_json:
        bad = [{"path": its.path, "reason": its.reason} for its in encoded.rejected]
        facts = {"file": str(output), "images": len(kept), "rejected": bad}
        rate = {"seconds": round(seconds, 3), "images_per_second": round(len(kept) / seconds, 1)}
        print(json.dumps({**facts, **rate, "fingerprint": encoder.fingerprint}))
    else:
        _tell(output, encoded, seconds)


def _encode(encoder: "ImageEncoder", catalog: "Catalog", max_bad_share: float) -> "Encoded":
    from surefind.cli.progress import stages
    from surefind.images.loading import TooManyRejected

    try:
        with stages() as tell:
            tell("encoding images", 0, len(catalog))
            encoded = encoder.encode_all(
                catalog.files,
                max_bad_share=max_bad_share,
                progress=lambda done: tell("encoding images", done, len(catalog)),
            )
    except TooManyRejected as error:
        raise SurefindError(
            error.problem,
            fix="repair or remove them, or skip any number of them: --max-bad-share 1",
        ) from error
    if not len(encoded.embeddings):
        raise SurefindError(f"none of the {len(catalog)} images could be read", fix="name others")
    return encoded


def _tell(output: Path, encoded: "Encoded", seconds: float) -> None:
    from surefind.search.printable import printable

    count = len(encoded.embeddings)
    rate = f"{count / seconds:,.0f} images/s"
    print(f"{printable(str(output))}: {count:,} images in {seconds:.1f} s ({rate})")
    if encoded.rejected:
        print(f"{len(encoded.rejected):,} could not be read:")
        for bad in encoded.rejected[:SHOWN]:
            print(f"  {printable(f'{bad.path}: {bad.reason}')}")
        if len(encoded.rejected) > SHOWN:
            print(f"  and {len(encoded.rejected) - SHOWN:,} more (all with --json)")
