"""What query expansion and the fusion of views do to retrieval, with and without precisions.

python benchmarks/expansion.py --model MODEL [MODEL ...] [--data DATA]     tables, and a JSON file

Each photo of the test classes asks all others. Every setting that is tried is reported.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from feature_sets import VIEWS, encode_view
from measure import write
from retrieval import name_of
from torch import Tensor

import surefind as sf
from surefind.functional import expand, fuse
from surefind.images.catalog import Catalog
from surefind.metrics import average_precision_at_k, bootstrap_means, hit_at_k, paired_test
from surefind.reports.signals import RANKINGS, neighbours

RESULTS = Path(__file__).parent / "results"
DEPTH = 10
GROUP = 4  # photos of a species that ask together
FUSED = {"photo and mirror image": 2, "photo, mirror image, 3 crops": 5}  # the first of VIEWS


class Values(NamedTuple):
    """One number for each query, or for each group of them."""

    ap: Tensor
    recall: Tensor


Settings = dict[str, Values]


class Trial(NamedTuple):
    """The photos of the test classes, all of them in the gallery but for those that ask."""

    gallery: sf.Embeddings
    labels: Tensor  # (M,)
    ranking: str

    def nearest(self, query: sf.Embeddings, asking: Tensor, k: int) -> Tensor:
        """The k nearest rows (Q, k) but for those in `asking` (Q, n)."""
        found = neighbours(self.ranking, query, self.gallery, k + asking.shape[1]).rows
        own = (found[:, :, None] == asking[:, None]).any(2)
        order = own.long().argsort(dim=1, stable=True)[:, :k]  # their own rows come last
        return found.gather(1, order)

    def ask(self, query: sf.Embeddings, asking: Tensor) -> Values:
        """What queries find that are made of the photos in rows `asking` (Q, n)."""
        label = self.labels[asking[:, :1]]
        hits = self.labels[self.nearest(query, asking, DEPTH)] == label
        matches = (self.labels == label).sum(1) - asking.shape[1]
        return Values(average_precision_at_k(hits, matches, DEPTH), hit_at_k(hits, 1))


def expansions(trial: Trial) -> Settings:
    query = trial.gallery
    itself = torch.arange(len(query))[:, None]
    found = {"photo alone": trial.ask(query, itself)}
    for k in (5, 10):
        near = trial.nearest(query, itself, k).flatten()
        for alpha in (0, 3):
            for way in ("plain", "precisions"):
                moved = expand(query, query[near], alpha=alpha, certainty=way == "precisions")
                found[f"expanded, K = {k}, alpha = {alpha}, {way}"] = trial.ask(moved, itself)
    return found


def joined(views: sf.Embeddings, each: int) -> Iterator[tuple[str, sf.Embeddings]]:
    """Rows of `each` views made one: their plain average, and by their precisions."""
    mean = views.mean.reshape(-1, each, views.dim).mean(1)
    spread = views.spread.reshape(-1, each).mean(1)
    if isinstance(views, sf.VonMisesFisher):
        mean = torch.nn.functional.normalize(mean, dim=1)
    yield "plain", views.replace(mean, spread)
    rows = torch.arange(len(views)).reshape(-1, each)
    yield "precisions", type(views).cat([fuse(views[some]) for some in rows])


def fused_views(trial: Trial, views: list[sf.Embeddings]) -> Settings:
    itself = torch.arange(len(trial.gallery))[:, None]
    found = {}
    for name, count in FUSED.items():
        together = type(views[0]).cat(views[:count])
        order = torch.arange(len(together)).reshape(count, -1).T.flatten()
        for way, query in joined(together[order], count):
            found[f"{name}, {way}"] = trial.ask(query, itself)
    return found


def fused_photos(trial: Trial, *, seed: int = 0) -> Settings:
    """Groups of photos of one species; none of a group is in the gallery that it searches.

    One number per group: the mean over its photos, over its two pairs, or of all four as one.
    """
    generator = torch.Generator().manual_seed(seed)
    groups = []
    for label in trial.labels.unique():
        rows = torch.nonzero(trial.labels == label).flatten()
        rows = rows[torch.randperm(len(rows), generator=generator)]
        if len(rows) > GROUP:  # something must be left to be found
            groups.append(rows[: len(rows) // GROUP * GROUP].reshape(-1, GROUP))
    rows = torch.cat(groups)
    found = {}
    for each in (1, 2, 4):
        asking = rows.repeat_interleave(GROUP // each, dim=0)
        for way, query in joined(trial.gallery[rows.flatten()], each):
            values = trial.ask(query, asking)
            of_group = Values(*(value.reshape(len(rows), -1).mean(1) for value in values))
            found["one of the group" if each == 1 else f"{each} photos, {way}"] = of_group
    return found


def compare(found: Settings, baseline: str) -> dict[str, dict[str, object]]:
    """Each setting with its interval, against the baseline, and precisions against plain."""
    rows: dict[str, dict[str, object]] = {}
    for name, values in found.items():
        row: dict[str, object] = {}
        for metric, value in zip(("mAP@10", "R@1"), values, strict=True):
            at = Values._fields[metric == "R@1"]
            row[metric] = vars(bootstrap_means(value[:, None])[0])
            rivals = {"baseline": baseline, "plain": name.replace("precisions", "plain")}
            for against, rival in rivals.items():
                if rival != name:
                    difference, p = paired_test(value, getattr(found[rival], at))
                    row[f"{metric} less {against}"] = {**vars(difference), "p": p}
        rows[name] = row
    return rows


def measured(encoder: sf.Encoder, catalog: Catalog, names: list[str], keep: Path) -> dict[str, object]:
    files = list(catalog.files)
    views = [encode_view(encoder, files, name, keep) for name in names]
    labels = torch.from_numpy(catalog.codes)
    found: dict[str, object] = {}
    for ranking in RANKINGS:
        trial = Trial(views[0], labels, ranking)
        alone = expansions(trial) | (fused_views(trial, views) if len(views) > 1 else {})
        groups = fused_photos(trial)
        found[ranking] = compare(alone, "photo alone") | compare(groups, "one of the group")
    return found


def show(found: dict[str, dict], ranking: str, metric: str) -> None:
    """A table in Markdown: the value of a baseline, else the difference from it."""
    print(f"\n**{metric}, ranked by {ranking}**\n")
    print("| |", " | ".join(found), "|")
    print("|---|" + "---|" * len(found))
    for name in next(iter(found.values()))[ranking]:
        cells = []
        for by_ranking in found.values():
            row = by_ranking[ranking][name]
            cell = "{value:.3f} [{low:.3f}, {high:.3f}]".format(**row[metric])
            if (less := row.get(f"{metric} less baseline")) is not None:
                cell = "{value:+.4f} [{low:+.4f}, {high:+.4f}]".format(**less)
            if (less := row.get(f"{metric} less plain")) is not None:
                cell += "; to plain {value:+.4f}, p {p:.3f}".format(**less)
            cells.append(cell)
        print(f"| {name} |", " | ".join(cells), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", nargs="+", type=Path, required=True)
    default = os.environ.get("SUREFIND_DATA", "data")
    parser.add_argument("--data", default=default, help="folder with cub200-2010 in it, or glyphs")
    parser.add_argument("--keep", type=Path, help="folder for embeddings, to be used again")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "expansion.json")
    options = parser.parse_args()
    source, names = options.data, list(VIEWS)
    if source == "glyphs":
        names = ["photo"]  # a mirrored b is a d
    else:
        birds = Path(options.data) / "cub200-2010"
        if not birds.is_dir():
            sys.exit(f"{birds} is missing: name the folder that it is in with --data")
        source = f"cub200:{birds}"
    test = sf.open_dataset(source).test
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        keep = options.keep or Path(temporary)
        keep.mkdir(parents=True, exist_ok=True)
        for model in options.model:
            found[name_of(model)] = measured(sf.Encoder.load(model), test, names, keep)
    for metric in ("mAP@10", "R@1"):
        for ranking in RANKINGS:
            show(found, ranking, metric)
    write({"images": len(test), "models": found}, options.output)


if __name__ == "__main__":
    main()
