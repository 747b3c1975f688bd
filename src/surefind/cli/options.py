"""Options and arguments that several commands have, and what they complete to."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from surefind.images.catalog import Catalog

# Written down here as well as where they are at home, which would load torch.
Part = Literal["all", "train", "val", "test"]
Kind = Literal["auto", "flat", "hnsw", "ivf"]
Ranking = Literal["expected", "mean"]
Runtime = Literal["torch", "onnx", "onnx-int8"]
DATASETS = ("glyphs", "cub200:", "cars196:", "msls:", "places:", "folder:", "csv:")
ENGINES = ("faiss", "pgvector://", "milvus://")


def complete_recipe(incomplete: str) -> list[str]:
    from surefind.training.recipe import recipe_names

    return [name for name in recipe_names() if name.startswith(incomplete)]


def _one_of(*names: str) -> Callable[[str], list[str]]:
    """Offer what begins so; where nothing does, the shell offers files."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


COMPLETIONS = {  # by the name of a parameter, for what is neither a choice nor a path
    **dict.fromkeys(
        ("data", "images", "ood", "zero_shot", "train_data", "int8"), _one_of(*DATASETS)
    ),
    "engine": _one_of(*ENGINES),
    "recipe": complete_recipe,
}

IndexArgument = Annotated[Path, typer.Argument(metavar="INDEX", help="A folder of surefind index.")]
ModelArgument = Annotated[Path, typer.Argument(help="A model folder of surefind train.")]
DataArgument = Annotated[str, typer.Argument(help="A folder, a CSV, NAME:FOLDER, or 'glyphs'.")]
PartOption = Annotated[Part, typer.Option(help="Which part of the data.")]
RuntimeOption = Annotated[
    Runtime, typer.Option(help="What encodes: torch, or what surefind export wrote.")
]
EngineOption = Annotated[
    str | None,
    typer.Option(help="The engine's URL, where it needs a password or has moved."),
]
MaxBadShareOption = Annotated[
    float,
    typer.Option(min=0, max=1, help="Stop when more than this share of images cannot be read."),
]
PrecisionOption = Annotated[
    float, typer.Option(help="Of what is called a match, this share is to be right,")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def part_of(data: str, part: Part) -> "Catalog":
    """Return all images of the data, or those to train, validate or test with."""
    from surefind.datasets import open_dataset, read_catalog
    from surefind.errors import InvalidArgument

    if part == "all":
        return read_catalog(data)
    catalog: Catalog = getattr(open_dataset(data), part)
    if not len(catalog):
        raise InvalidArgument("--part", expected="images in it", got=f"none in {part} of {data}")
    return catalog
