"""What the variance learns: unit or free means, LayerNorm or none, paper's or centred likelihood.

python benchmarks/ablation.py means [--seeds 3]       eight variants of the Bayesian loss, on glyphs
python benchmarks/ablation.py variance --data cub200:FOLDER --rates --val-share 0.2   trained longer
python benchmarks/ablation.py means --data cub200:FOLDER --only free,none,paper --seeds 1 --rates

For each variant the learning rate is the one with the best MAP@R on validation classes (seed 0), or
the recipe's own where none are named; the table is about test classes. Finished runs in the output
folder are used again. Table and JSON.
"""

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import torch
from measure import write
from rich.console import Console
from rich.table import Table

import surefind as sf
from surefind.datasets import Splits
from surefind.images.catalog import Catalog
from surefind.images.matches import matches_of
from surefind.training.monitor import TrainingStopped
from surefind.training.recipe import Recipe
from surefind.training.trainer import train, validate

RESULTS = Path(__file__).parent / "results"
MEASURES = {
    "recall": "R@1",
    "map_at_r": "MAP@R",
    "variance_auroc": "AUROC of the variance",
    "corruption": "variance ~ corruption",
}
Variant = tuple[str, ...]


def variants(table: str) -> dict[Variant, list[str]]:
    """Settings over the recipe of the table, by name."""
    if table == "variance":
        longer = ["variance.steps=200", "variance.lr=5e-4", "variance.margin=0.2"]
        longer += ["schedule.keep_by=both"]
        return {
            ("with the means",): [],
            ("200 steps more",): longer,
            ("200 steps more", "classes held out"): [*longer, "variance.held_out=0.25"],
        }
    return {
        (means, norm, likelihood): [*MEANS[means], *NORMS[norm], *LIKELIHOODS[likelihood]]
        for means, norm, likelihood in product(MEANS, NORMS, LIKELIHOODS)
    }


MEANS = {"free": ["encoder.unit_means=false"], "unit": ["encoder.unit_means=true"]}
NORMS = {"none": ["encoder.variance_layer_norm=false"], "LayerNorm": ["encoder.variance_layer_norm=true"]}
RECIPES = {"means": "bayes-gauss", "variance": "bayes-centred"}
LIKELIHOODS = {"paper": ["loss.centred=false"], "centred": ["loss.centred=true"]}


def run(splits: Splits, recipe_name: str, settings: list[str], folder: Path) -> Path:
    """Train one model, unless it is there; where training collapses, the best until then is it."""
    if not (folder / "done").exists():
        recipe = Recipe.read(recipe_name, settings)
        try:
            train(splits, recipe, folder, resume=(folder / "run" / "state.pt").exists())
        except TrainingStopped as stopped:
            print(f"{folder}: {stopped.problem}", flush=True)
        (folder / "done").touch()
    return folder


def judge(model: Path, catalog: Catalog) -> dict[str, float]:
    """R@1, MAP@R, AUROC of the query's variance, its rank correlation with the corruption."""
    kept = model / f"measured-{len(catalog)}.json"
    if kept.exists():
        return dict(json.loads(kept.read_text()))
    encoded = sf.Encoder.load(model).encode_all(catalog.files)
    found = validate(encoded.embeddings, encoded.rows, catalog, matches_of(catalog))._asdict()
    if catalog.difficulty:
        known = torch.tensor(catalog.difficulty, dtype=torch.float64)[encoded.rows]
        found["corruption"] = sf.metrics.spearman(encoded.embeddings.spread.double(), known)
    kept.write_text(json.dumps(found))
    return found


def chosen_rate(splits: Splits, recipe: str, settings: list[str], folder: Path, rates: list[float]) -> float:
    """The learning rate with the best MAP@R on validation classes; NaN: the recipe's own."""
    if len(rates) < 2:
        return rates[0] if rates else float("nan")
    found = {}
    for rate in rates:
        model = run(splits, recipe, [*settings, *at_rate(rate)], folder / f"lr-{rate:g}" / "seed-0")
        found[rate] = judge(model, splits.val)["map_at_r"]
    return max(found, key=found.__getitem__)


def at_rate(rate: float) -> list[str]:
    if rate != rate:
        return []
    return [f"optimiser.lr={rate}", f"optimiser.variance_lr={rate / 4}"]


def rows(arguments: argparse.Namespace) -> Iterator[tuple[Variant, float, list[dict[str, float]]]]:
    splits = sf.open_dataset(arguments.data, val_share=arguments.val_share)
    recipe = f"{RECIPES[arguments.table]}+{'glyphs' if arguments.data == 'glyphs' else 'cpu'}"
    for variant, keys in variants(arguments.table).items():
        if arguments.only and variant not in arguments.only:
            continue
        folder = arguments.output / arguments.table / "-".join(variant)
        settings = [*keys, *arguments.settings]
        rate = chosen_rate(splits, recipe, settings, folder, arguments.rates)
        measured = [
            judge(
                run(
                    splits,
                    recipe,
                    [*settings, *at_rate(rate), f"seed={seed}"],
                    folder / f"lr-{rate:g}" / f"seed-{seed}",
                ),
                splits.test,
            )
            for seed in range(arguments.seeds)
        ]
        yield variant, rate, measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=list(RECIPES))
    parser.add_argument("--data", default="glyphs")
    parser.add_argument("--val-share", type=float, default=0.1, help="of the training classes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rates", type=float, nargs="*", default=[1e-3, 2e-3, 5e-3, 1e-2])
    parser.add_argument("--only", action="append", type=lambda text: tuple(text.split(",")))
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "ablation")
    arguments = parser.parse_args()
    table = Table("variant", "learning rate", *MEASURES.values(), title=arguments.data)
    found = []
    for variant, rate, measured in rows(arguments):
        cells = [_cell([one.get(name, float("nan")) for one in measured]) for name in MEASURES]
        table.add_row(", ".join(variant), f"{rate:g}", *cells)
        found.append({"variant": variant, "lr": rate, "seeds": measured})
        kept = arguments.output / f"{arguments.table}.json"
        write({"data": arguments.data, "rows": found}, kept)
    Console().print(table)


def _cell(values: list[float]) -> str:
    if values[0] != values[0]:
        return "-"
    return f"{mean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
