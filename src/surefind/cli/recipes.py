"""surefind recipes: the recipes that come with surefind."""

from typing import Annotated

import typer


def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this one with every key.")] = None,
) -> None:
    """List the recipes that come with surefind, or print one with every key and its value."""
    from surefind.training.recipe import Recipe, find_recipe, recipe_names

    if name is not None:
        print(Recipe.read(name).to_toml(), end="")
        return
    for known in recipe_names():
        first = find_recipe(known).read_text().splitlines()[0]
        print(f"{known:36s} {first.removeprefix('# ')}")
