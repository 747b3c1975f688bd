"""surefind export: a model for other programs to run."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from surefind.cli.options import JsonOption, SplitOption, split_of
from surefind.cli.output import remark
from surefind.errors import InvalidArgument

VAGUE = 0.95  # a usual cosine below it: int8 costs this model more than a little


def export(
    model: Annotated[Path, Argument(help="A model folder of surefind train, or an index.")],
    onnx: Annotated[bool, Option("--onnx", help="Write MODEL/onnx/model-HASH.onnx.")] = False,
    int8: Annotated[
        str | None,
        Option(
            metavar="IMAGES",
            help="Also in int8; images like those to come: a folder, a CSV, NAME:FOLDER.",
        ),
    ] = None,
    count: Annotated[int, Option("--images", min=1, max=5000, help="How many to use.")] = 200,
    split: SplitOption = "all",
    as_json: JsonOption = False,
) -> None:
    """Write a model as ONNX, and say how far the export is from it.

    Encode, index, evaluate and serve take it with --runtime onnx or onnx-int8. In float32 it is
    the same model; int8 is quicker still and a little less exact, and needs an index of its own.

    Examples:
        surefind export model --onnx
        surefind export model --onnx --int8 photos/
    """
    from surefind.cli.output import stages
    from surefind.encoders.onnx.export import evenly, export_onnx
    from surefind.encoders.onnx.files import check_exporting
    from surefind.search.folder import IndexFolder
    from surefind.text import printable

    if not onnx:
        raise InvalidArgument(
            "export", expected="a format", got="none", fix=f"surefind export {model} --onnx"
        )
    check_exporting()  # before images are looked for
    folder = IndexFolder(model).model if IndexFolder(model).exists() else model
    files = []
    if int8 is not None:
        catalog = split_of(int8, split)
        files = [catalog.file(row) for row in evenly(len(catalog), count)]
    with stages() as tell:
        source = Path(int8 or "").name  # it may be shared, and with it no path of this machine
        made = export_onnx(folder, int8=files, source=source, tell=tell)
    if as_json:
        facts = {
            precision: {"path": str(its.path), "megabytes": its.megabytes, **its.parity._asdict()}
            for precision, its in made.items()
        }
        print(json.dumps({"model": str(folder), "files": facts}))
        return
    for precision, its in made.items():
        far = its.parity
        print(f"{printable(str(its.path))}: {its.megabytes:.1f} MB, {precision}")
        print(f"  beside the model, on {far.images} images:   usually     at most")
        for what, typical, extreme, digits in (
            ("mean, as a share of its length", far.mean_typical, far.mean_largest, ".2g"),
            ("variance, as a share of it", far.var_typical, far.var_largest, ".2g"),
            ("cosine of the means", far.cosine_typical, far.cosine_least, ".6f"),
        ):
            print(f"  {what:31}  {typical:10{digits}}  {extreme:10{digits}}")
        if far.cosine_typical < VAGUE:
            remark(f"warning: {precision} changes the model much; compare with surefind evaluate")
