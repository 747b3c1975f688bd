"""surefind train and surefind recipes: train an encoder, and the built-in recipes."""

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import surefind as sf
from surefind.cli.errors import GracefulStop, StopRequest
from surefind.cli.options import IMAGES, JsonOption, SetOption, complete_recipe
from surefind.cli.output import stages

if TYPE_CHECKING:
    from surefind.training.run_folder import StepInfo


def train(
    data: Annotated[str, Argument(help=f"{IMAGES}. A folder has a sub-folder per class.")],
    output: Annotated[Path, Option("--output", "-o", help="Folder for the model.")],
    recipe: Annotated[
        str | None,
        Option(
            help="A recipe (surefind recipes lists them) or a TOML file; A+B: B overrides A. "
            "Default: bayes-centred+cpu (glyphs: +glyphs)."
        ),
    ] = None,
    backbone: Annotated[str | None, Option(help="A timm model, e.g. densenet161.tv_in1k")] = None,
    settings: SetOption = None,
    resume: Annotated[bool, Option("--resume", help="Continue an interrupted run.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train an encoder. Interrupt at any time; --resume gives a bit-identical result.

    Examples:
        surefind train glyphs -o model
        surefind train photos/ -o model --recipe bayes-centred+cpu
        surefind train photos/ -o model --recipe triplet+cpu --set schedule.steps=500
        surefind train glyphs -o model --resume
    """
    from surefind.reports.figures.curves import training_figure
    from surefind.reports.figures.style import save
    from surefind.training.monitor import TrainingStopped
    from surefind.training.run_folder import read_log
    from surefind.training.trainer import train as run

    scale = "glyphs" if data.split(":")[0] == "glyphs" else "cpu"
    backbone_key = [] if backbone is None else [f"encoder.backbone={backbone}"]
    chosen = sf.Recipe.read(recipe or f"bayes-centred+{scale}", [*backbone_key, *(settings or ())])
    splits = sf.open_dataset(data, val_share=chosen.data.val_share)
    stop, total = StopRequest(), chosen.schedule.steps + chosen.variance.steps
    before = None if resume else 0  # steps of an earlier run
    with stages() as progress:

        def show(info: "StepInfo") -> None:
            nonlocal before
            before = info.step if before is None else before
            facts = f"loss {info.loss:.4f}, win rate {info.win_rate:.3f}, std {info.median_std:.3g}"
            if not math.isnan(info.recall):
                facts = f"R@1 {info.recall:.3f}"
            progress("training", info.step - before, total - before, facts)

        try:
            result = run(splits, chosen, output, resume=resume, on_step=show, should_stop=stop)
        except TrainingStopped as stopped:
            if stop.requested:
                raise GracefulStop(stopped.problem, fix=stopped.fix) from stopped
            raise
    if os.environ.get("RANK", "0") != "0":
        return  # of torchrun's processes, one prints
    parts = {"train": splits.train, "validate": splits.val, "test": splits.test}
    counts = {what: {"images": len(p), "classes": len(p.classes)} for what, p in parts.items()}
    save(training_figure(read_log(output / "run" / "log.csv")), output / "run" / "curve.png")
    if as_json:
        facts = result._asdict() | {
            "folder": str(result.folder),
            "splits": counts,
            "rejected": [rejection._asdict() for rejection in result.rejected],
        }
        print(json.dumps({k: None if v != v else v for k, v in facts.items()}))
        return
    steps = "1 step" if result.steps == 1 else f"{result.steps:,} steps"
    print(f"{result.folder}: trained for {steps}; {result.ended}")
    for what, count in counts.items():
        print(f"to {what}: {count['images']:,} images of {count['classes']:,} classes")
    if not math.isnan(result.recall):
        print(f"R@1 on validation classes: {result.start_recall:.3f} -> {result.recall:.3f}")
    if result.rejected:
        print(f"{len(result.rejected)} images were skipped: {result.folder}/run/rejected.csv")


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
