"""surefind train: from images to a model folder."""

import json
import math
import os
from pathlib import Path
from typing import Annotated, Any, Self

import typer

from surefind.cli.progress import bars, line
from surefind.cli.stopping import StopRequest


def train(
    data: Annotated[
        str,
        typer.Argument(help="A folder of class folders, a CSV, NAME:FOLDER, or 'glyphs'."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model folder to make.")],
    recipe: Annotated[
        str | None,
        typer.Option(help="A TOML file or a name (surefind recipes); A+B puts B over A."),
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Instead of the recipe's: densenet161.tv_in1k, …")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change one key of it: loss.margin=0.1")
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Go on where the run in the folder stopped.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train an encoder; stop it whenever you like and go on with --resume.

    Examples:
        surefind train glyphs -o model
        surefind train photos/ -o model --recipe bayes-centred+cpu
        surefind train photos/ -o model --recipe triplet+cpu --set schedule.steps=500
        surefind train glyphs -o model --resume
    """
    from surefind.datasets import open_dataset
    from surefind.training.loop import train as run
    from surefind.training.recipe import Recipe
    from surefind.training.watch import TrainingStopped

    scale = "glyphs" if data.split(":")[0] == "glyphs" else "cpu"
    backbone_key = [] if backbone is None else [f"encoder.backbone={backbone}"]
    chosen = Recipe.read(recipe or f"bayes-centred+{scale}", [*backbone_key, *(settings or ())])
    stop = StopRequest()
    with _Bar(chosen.schedule.steps + chosen.variance.steps) as bar:
        try:
            result = run(
                open_dataset(data, val_share=chosen.data.val_share),
                chosen,
                output,
                resume=resume,
                on_step=bar.show,
                should_stop=stop,
            )
        except TrainingStopped as stopped:
            raise stop.explain(stopped) from stopped
    if os.environ.get("RANK", "0") != "0":
        return  # torchrun: one process tells
    _draw(output)
    if as_json:
        facts = result._asdict() | {
            "folder": str(result.folder),
            "rejected": [rejection._asdict() for rejection in result.rejected],
        }
        print(json.dumps({k: None if v != v else v for k, v in facts.items()}))
        return
    print(f"{result.folder}: {result.steps} steps; {result.ended}")
    if not math.isnan(result.recall):
        print(f"R@1 on validation classes: {result.start_recall:.3f} -> {result.recall:.3f}")
    if result.rejected:
        print(f"{len(result.rejected)} images were left out: {result.folder}/run/rejected.csv")


def _draw(output: Path) -> None:
    from surefind.reports.figures.curves import draw_training
    from surefind.training.log import read_log

    draw_training(read_log(output / "run" / "log.csv"), output / "run" / "curve.png")


class _Bar:
    """Rate, time left, loss, win rate and spread; without a terminal, a line now and then."""

    def __init__(self, total: int) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self.bar = bars(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[facts]}"),
        )
        self.task = self.bar.add_task("", total=total, rate="", facts="")
        self.recall = ""
        self.first: tuple[int, float] | None = None

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def show(self, info: Any) -> None:
        if not math.isnan(info.recall):
            facts = f"R@1 {info.recall:.3f}"
            self.recall = f" · {facts}"
        else:
            facts = (
                f"loss {info.loss:.4f} · win rate {info.win_rate:.3f} · std {info.median_std:.3g}"
            )
        if self.first is None:
            self.first = (info.step, info.seconds)
        made, seconds = info.step - self.first[0], info.seconds - self.first[1]
        rate = f"{made / seconds:.1f} steps/s" if made and seconds else ""
        self.bar.update(self.task, completed=info.step, rate=rate, facts=facts + self.recall)
        line(self.bar, f"step {info.step}: {facts} · {rate}")
