"""surefind export: write a model as ONNX."""

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

from typer import Argument, Option

import surefind as sf
from surefind.cli.options import JsonOption, SplitOption, split_of
from surefind.cli.output import note, stages

LOW_COSINE = 0.95  # of median embeddings: below it, a warning


def export(
    model: Annotated[Path, Argument(help="A model folder of surefind train, or an index.")],
    onnx: Annotated[bool, Option("--onnx", help="Write MODEL/onnx/model-HASH.onnx.")] = False,
    int8: Annotated[
        str | None,
        Option(metavar="IMAGES", help="Also write an int8 model, quantised with these images, like your queries."),
    ] = None,
    count: Annotated[int, Option("--images", min=1, max=5000, help="Images for --int8.")] = 200,
    split: SplitOption = "all",
    as_json: JsonOption = False,
) -> None:
    """Write a model as ONNX, and measure how much its embeddings differ from PyTorch's.

    Use it with --runtime onnx or onnx-int8 in encode, index, evaluate and serve. The float32 model
    is equivalent; int8 is faster and less exact, and needs its own index.

    Examples:
        surefind export model --onnx
        surefind export model --onnx --int8 photos/
    """
    from surefind.encoders.onnx import check_exporting, evenly, export_onnx
    from surefind.search.folder import IndexFolder
    from surefind.text import printable

    if not onnx:
        raise sf.InvalidArgument(
            "export", expected="a format", got="none", fix=f"surefind export {quote(str(model))} --onnx"
        )
    check_exporting()  # before images are read
    folder = IndexFolder(model).model if IndexFolder(model).exists() else model
    files = []
    if int8 is not None:
        catalog = split_of(int8, split)
        files = [catalog.file(row) for row in evenly(len(catalog), count)]
    with stages() as progress:
        source = Path(int8 or "").name  # no full path: the export may be shared
        made = export_onnx(folder, int8=files, source=source, tell=progress)
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
        print(f"  difference on {far.images} images:            median       worst")
        for what, typical, extreme, digits in (
            ("mean, relative", far.mean_typical, far.mean_largest, ".2g"),
            ("variance, relative", far.var_typical, far.var_largest, ".2g"),
            ("cosine of the means", far.cosine_typical, far.cosine_least, ".6f"),
        ):
            print(f"  {what:31}  {typical:10{digits}}  {extreme:10{digits}}")
        if far.cosine_typical < LOW_COSINE:
            note(f"warning: {precision} changes the model a lot; compare with surefind evaluate")
