"""What the Tab key offers for the values of options and arguments, without loading anything slow.

The names are written down again here: where they are at home, torch is loaded with them. A test
keeps both alike.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

DATASETS = ("glyphs", "cub200:", "cars196:", "msls:", "places:", "folder:", "csv:")
PARTS = ("all", "train", "val", "test")
KINDS = ("auto", "flat", "hnsw", "ivf")
RANKINGS = ("expected", "mean")
ENGINES = ("faiss", "pgvector://", "milvus://")
SERVERS = ENGINES[1:]
RUNTIMES = ("torch", "onnx", "onnx-int8")

Offer = Callable[[str], list[str]]


def recipe_names(incomplete: str) -> list[str]:
    from surefind.training.recipe import recipe_names as known

    return [name for name in known() if name.startswith(incomplete)]


def datasets(incomplete: str) -> list[str]:
    """Names of data, and what is on the disk, which the shell would not offer beside them."""
    return [name for name in DATASETS if name.startswith(incomplete)] + _on_disk(incomplete)


def one_of(*choices: str) -> Offer:
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


OFFERS: dict[str, Offer] = {  # by the name of a parameter, or of a command and a parameter
    "recipe": recipe_names,
    "data": datasets,
    "images": datasets,
    "ood": datasets,
    "zero_shot": datasets,
    "train_data": datasets,
    "part": one_of(*PARTS),
    "engine": one_of(*SERVERS),
    "runtime": one_of(*RUNTIMES),
    "recipes.name": recipe_names,
    "index.engine": one_of(*ENGINES),
    "index.kind": one_of(*KINDS),
    "index.ranking": one_of(*RANKINGS),
    "index.duplicates": one_of("skip", "keep"),
    "search.ranking": one_of(*RANKINGS),
    "export.images": one_of(),  # a number
    "export.int8": datasets,
    "evaluate.rows": one_of("csv", "parquet"),
    "reproduce.dataset": one_of("cub200", "cars196", "msls", "glyphs"),
    "reproduce.backbone": one_of("resnet50", "densenet161"),
    "reproduce.scale": one_of("paper", "cpu"),
}


def complete_values(command: Callable[..., Any]) -> None:
    """Give the parameters of a command what is known about their values."""
    for name, hint in command.__annotations__.items():
        offer = OFFERS.get(f"{command.__name__}.{name}", OFFERS.get(name))
        for parameter in getattr(hint, "__metadata__", ()):
            if offer is not None and parameter.autocompletion is None:
                parameter.autocompletion = offer


def _on_disk(incomplete: str) -> list[str]:
    """Folders, and tables of images, that begin so."""
    folder, slash, name = incomplete.rpartition("/")
    try:
        entries = sorted(Path(folder + slash).iterdir())
    except OSError:
        return []
    return [
        f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in entries
        if entry.name.startswith(name)
        and (name or not entry.name.startswith("."))
        and (entry.is_dir() or entry.suffix in (".csv", ".parquet"))
    ]
