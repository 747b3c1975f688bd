"""Options shared by commands, their completion, and registration of commands."""

import inspect
import re
import shlex
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option, Typer

from surefind.cli.output import set_verbosity

if TYPE_CHECKING:
    from surefind.images.catalog import Catalog
    from surefind.vectors.reader import Vectors

# Repeated here because their own modules import torch; a test compares them.
Split = Literal["all", "train", "val", "test"]
Kind = Literal["auto", "flat", "hnsw", "ivf"]
Ranking = Literal["expected", "mean"]
HitRanking = Literal["confidence", "mean", "expected"]
Runtime = Literal["torch", "onnx", "onnx-int8"]
DATASETS = ("glyphs", "cub200:", "cars196:", "msls:", "places:", "folder:", "csv:")
ENGINES = ("faiss", "pgvector://", "milvus://")


def complete_recipe(incomplete: str) -> list[str]:
    from surefind.training.recipe import recipe_names

    return [name for name in recipe_names() if name.startswith(incomplete)]


def _one_of(*names: str) -> Callable[[str], list[str]]:
    """Complete one of the names; if none begins so, the shell completes files."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


COMPLETIONS = {  # by parameter name; choices and paths are completed by typer
    **dict.fromkeys(("data", "images", "ood", "train_data", "int8"), _one_of(*DATASETS)),
    "engine": _one_of(*ENGINES),
    "recipe": complete_recipe,
}

PATHS = {"data", "images", "queries", "vectors", "folder", "model", "ood"}  # parameters
IMAGES = "A folder, a CSV file, DATASET:FOLDER (such as cub200:data/CUB), or 'glyphs'"
QUERIES = f"{IMAGES[0].lower()}{IMAGES[1:]}; for an index of vectors, a file of vectors"
IndexArgument = Annotated[Path, Argument(metavar="INDEX", help="An index folder.")]
ModelArgument = Annotated[Path, Argument(help="A model folder written by surefind train.")]
DataArgument = Annotated[str, Argument(help=f"{IMAGES}.")]
SplitOption = Annotated[Split, Option(help="Split of the data to use.")]
RuntimeOption = Annotated[Runtime, Option(help="Run the model with PyTorch, or as written by surefind export.")]
EngineOption = Annotated[str | None, Option(help="URL of the vector store, if it needs a password or has moved.")]
MaxBadShareOption = Annotated[float, Option(min=0, max=1, help="Stop if more than this share cannot be read.")]
PrecisionOption = Annotated[float, Option(help="Guaranteed share of correct results among those called match.")]
ProbabilityOption = Annotated[float, Option(help="Probability with which the guarantee holds (over calibration sets).")]
LabelOption = Annotated[str, Option(help="Metadata field of the labels.")]
VarianceOption = Annotated[bool, Option(help="Learn an uncertainty of each image or vector.")]
OodOption = Annotated[str | None, Option(help="Out-of-distribution images; of data with splits, the test split.")]
PortOption = Annotated[int, Option(min=0, max=65535, help="Port; 0: any free one.")]
SetOption = Annotated[list[str] | None, Option("--set", help="Recipe key, e.g. loss.margin=0.1. Repeatable.")]
JsonOption = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only results and errors.")]
Debug = Annotated[bool, Option("--debug", help="Print a log, and tracebacks of errors.")]
Command = Callable[..., None]


def split_of(data: str, split: Split) -> "Catalog":
    """Return all images of the data, or those of one split."""
    from surefind.datasets import open_dataset, read_catalog
    from surefind.errors import InvalidArgument

    if split == "all":
        return read_catalog(data)
    catalog: Catalog = getattr(open_dataset(data), split)
    if not len(catalog):
        raise InvalidArgument("--split", expected="images in it", got=f"none in {split} of {data}")
    return catalog


def labelled_vectors(path: str | Path, **names: str | None) -> "Vectors":
    """Read vectors with their labels; `names` are those of the arrays."""
    from surefind.errors import InvalidFile
    from surefind.vectors.reader import read_vectors

    if not (found := read_vectors(path, **names)).labels:
        fix = f"add them: np.savez({str(path)!r}, vectors=vectors, labels=labels)"
        raise InvalidFile(f"{path} has no labels", fix=fix)
    return found


def refuse_urls(paths: Iterable[object]) -> None:
    """Raise SurefindError if one is an address on the web."""
    from surefind.errors import SurefindError

    for path in paths:
        if web := re.match(r"(https?|ftp|s3|gs):/+(?=\S)", str(path)):
            url = f"{web[1]}://{str(path)[web.end() :]}"
            fix = f"download it first: curl -LO {shlex.quote(url)}"
            raise SurefindError(f"{url} is a URL; surefind reads files", fix=fix)


def register(app: Typer, command: Command, *, panel: str | None = None) -> None:
    """Add a command with --quiet and --debug. Its docstring ends with "Examples: surefind ..."."""
    text, examples = explained(command.__doc__ or "")
    for name, hint in command.__annotations__.items():
        for parameter in getattr(hint, "__metadata__", ()):
            parameter.autocompletion = parameter.autocompletion or COMPLETIONS.get(name)

    @wraps(command)
    def run(*, quiet: bool = False, debug: bool = False, **named: Any) -> None:
        set_verbosity(quiet=quiet, debug=debug)
        for name in PATHS & named.keys():
            refuse_urls(named[name] if isinstance(named[name], list) else [named[name]])
        command(**named)

    own = inspect.signature(command, eval_str=True)
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=hint)
        for name, hint in (("quiet", Quiet), ("debug", Debug))
    ]
    signature = own.replace(parameters=[*own.parameters.values(), *common])
    run.__signature__ = signature  # type: ignore[attr-defined]  # read by inspect.signature
    app.command(help=text, epilog="\n".join(["Examples:", *examples]), rich_help_panel=panel)(run)


def explained(docstring: str) -> tuple[str, list[str]]:
    r"""Return a docstring with its lines joined, and the examples at its end.

    >>> explained("Look around.\n\nAt all\nof it. Examples: surefind look here")
    ('Look around.\n\nAt all of it.', ['surefind look here'])
    """
    text, _, examples = inspect.cleandoc(docstring).partition("Examples:")
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
    return "\n\n".join(paragraphs), [line.strip() for line in examples.strip().splitlines()]
