"""surefind export: a model for other programs to run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.errors import InvalidArgument

if TYPE_CHECKING:
    from surefind.encoders.onnx.export import Made

VAGUE = 0.95  # a usual cosine below it: int8 costs this model more than a little


def export(
    model: Annotated[
        Path, typer.Argument(help="A model folder of surefind train, or an index with its own.")
    ],
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Write MODEL/onnx/model.onnx, in float32.")
    ] = False,
    int8: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGES",
            help="Also model_int8.onnx; images like those to come: a folder, a CSV, NAME:FOLDER.",
        ),
    ] = None,
    images: Annotated[
        int, typer.Option(min=1, max=5000, help="So many of them, spread over all.")
    ] = 200,
    part: Annotated[str, typer.Option(help="all of the images, train, val or test.")] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write a model as ONNX, and say how far the export is from it.

    Encode, index, evaluate and serve take it with --runtime onnx or onnx-int8. In float32 it is
    the same model; int8 is quicker still and a little less exact, and needs an index of its own.

    Examples:
        surefind export model --onnx
        surefind export model --onnx --int8 photos/
    """
    from surefind.cli.parts import PARTS, part_of
    from surefind.cli.progress import stages
    from surefind.encoders.onnx.export import evenly, export_onnx
    from surefind.encoders.onnx.extra import check_exporting
    from surefind.search.folder import IndexFolder
    from surefind.validation import check_choice

    if not onnx:
        raise InvalidArgument(
            "export", expected="a format", got="none", fix=f"surefind export {model} --onnx"
        )
    check_choice("--part", part, PARTS)
    check_exporting()  # before images are looked for
    folder = IndexFolder(model).model if IndexFolder(model).exists() else model
    files = []
    if int8 is not None:
        catalog = part_of(int8, part)
        files = [catalog.file(row) for row in evenly(len(catalog), images)]
    with stages() as tell:
        source = Path(int8 or "").name  # it may be shared, and with it no path of this machine
        made = export_onnx(folder, int8=files, source=source, tell=tell)
    if as_json:
        print(json.dumps({"model": str(folder), "files": _facts(made)}))
        return
    for precision, its in made.items():
        _tell(precision, its)


def _facts(made: "dict[str, Made]") -> dict[str, Any]:
    return {
        precision: {"path": str(its.path), "megabytes": its.megabytes, **its.parity.as_dict()}
        for precision, its in made.items()
    }


def _tell(precision: str, made: "Made") -> None:
    from surefind.cli.voice import remark
    from surefind.search.printable import printable

    far = made.parity
    print(f"{printable(str(made.path))}: {made.megabytes:.1f} MB, {precision}")
    print(f"  beside the model, on {far.images} images:   usually     at most")
    print(f"  mean, as a share of its length   {far.mean_typical:10.2g}  {far.mean_largest:10.2g}")
    print(f"  variance, as a share of it       {far.var_typical:10.2g}  {far.var_largest:10.2g}")
    print(
        f"  cosine of the means              {far.cosine_typical:10.6f}  {far.cosine_least:10.6f}"
    )
    if far.cosine_typical < VAGUE:
        remark(f"warning: {precision} changes this model much; compare both with surefind evaluate")
