"""surefind recipes: the recipes that come with surefind."""

import json
from typing import Annotated

import typer

from surefind.cli.options import JsonOption, complete_recipe


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(help="Print this one with every key.", autocompletion=complete_recipe),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the recipes that come with surefind, or print one with every key and its value.

    Examples:
        surefind recipes
        surefind recipes bayes-gauss
        surefind recipes bayes-centred+glyphs --json
    """
    from surefind.training.recipe import Recipe, find_recipe, recipe_names

    if name is not None:
        recipe = Recipe.read(name)
        print(json.dumps(recipe.as_dict()) if as_json else recipe.to_toml().rstrip("\n"))
        return
    about = {
        known: find_recipe(known).read_text().splitlines()[0].removeprefix("# ")
        for known in recipe_names()
    }
    if as_json:
        print(json.dumps(about))
        return
    for known, line in about.items():
        print(f"{known:17s} {line}")
