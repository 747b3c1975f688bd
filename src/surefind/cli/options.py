"""Options shared by commands, their completion, and registration of commands."""

import inspect
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from surefind.cli.errors import Ended
from surefind.cli.output import speak

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


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no remarks: the result, and errors.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Errors with all their details, and a log.")]


Command = Callable[..., None]


class Explanation(NamedTuple):
    """The docstring of a command: what it does, and examples of it."""

    text: str
    examples: tuple[str, ...]


def register(
    app: typer.Typer,
    command: Command,
    *,
    panel: str | None = None,
) -> None:
    """Add a command to an app. Its docstring ends with "Example: surefind ..." or several."""
    explanation = explained(command.__doc__ or "")
    for name, hint in command.__annotations__.items():
        for parameter in getattr(hint, "__metadata__", ()):
            parameter.autocompletion = parameter.autocompletion or COMPLETIONS.get(name)
    app.command(
        help=_escaped(explanation.text),
        epilog=_escaped(listed_examples(explanation)),
        rich_help_panel=panel,
    )(with_common_options(command))


def with_common_options(command: Command) -> Command:
    """The same command with --quiet and --debug."""
    own = inspect.signature(command, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    common = [
        inspect.Parameter("quiet", keyword, default=False, annotation=Quiet),
        inspect.Parameter("debug", keyword, default=False, annotation=Debug),
    ]

    @wraps(command)
    def run(*given: Any, quiet: bool = False, debug: bool = False, **named: Any) -> None:
        speak(quiet=quiet, debug=debug)
        try:
            command(*given, **named)
        except (BrokenPipeError, EOFError) as end:
            raise Ended from end

    signature = own.replace(parameters=[*own.parameters.values(), *common])
    run.__signature__ = signature  # type: ignore[attr-defined]  # where inspect looks
    return run


def explained(docstring: str) -> Explanation:
    r"""A docstring without the line breaks of its source, and the examples at its end.

    >>> explained("Look around.\n\nAt all\nof it. Example: surefind look here")
    Explanation(text='Look around.\n\nAt all of it.', examples=('surefind look here',))
    """
    text, *rest = re.split(r"\bExamples?:\s", inspect.cleandoc(docstring), maxsplit=1)
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    examples = re.split(r"\n(?=\s*surefind )", rest[0]) if rest else []
    return Explanation(
        "\n\n".join(paragraph for paragraph in paragraphs if paragraph),
        tuple(" ".join(example.split()) for example in examples),
    )


def listed_examples(explanation: Explanation) -> str:
    return "\n".join(["Examples:", *explanation.examples])


def _escaped(text: str) -> str:
    """Brackets as they are written: rich takes some for colours."""
    return re.sub(r"\[(?=[a-z#/@])", r"\\[", text)
