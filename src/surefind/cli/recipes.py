"""surefind recipes: list the built-in training recipes."""

import json
from typing import Annotated

from typer import Argument

import surefind as sf
from surefind.cli.options import JsonOption, complete_recipe


def recipes(
    name: Annotated[
        str | None, Argument(help="Recipe to print with all its keys.", autocompletion=complete_recipe)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the built-in training recipes, or print one with all keys and values.

    Examples:
        surefind recipes
        surefind recipes bayes-gauss
        surefind recipes bayes-centred+glyphs --json
    """
    from surefind.training.recipe import find_recipe, recipe_names

    if name is not None:
        recipe = sf.Recipe.read(name)
        print(json.dumps(recipe.as_dict()) if as_json else recipe.to_toml().rstrip("\n"))
        return
    about = {known: find_recipe(known).read_text().splitlines()[0].removeprefix("# ") for known in recipe_names()}
    print(json.dumps(about) if as_json else "\n".join(f"{n:17s} {a}" for n, a in about.items()))
