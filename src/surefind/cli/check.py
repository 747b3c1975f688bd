"""surefind check: find images that cannot be used."""

import json
from collections import Counter

from typer import Exit

from surefind.cli.options import DataArgument, JsonOption
from surefind.cli.output import SHOWN, print_some, rejected_as_json, stages
from surefind.errors import SurefindError


def check(data: DataArgument, as_json: JsonOption = False) -> None:
    """Decode every image; count rejected images, twins, and classes that are too small.

    Also says whether `surefind train` would refuse the data. Exit code 1 if an image is rejected.

    Examples:
        surefind check photos/
        surefind check photos/ --json
    """
    from surefind.datasets import read_catalog
    from surefind.images.loader import Loader, file_digests
    from surefind.images.preprocess import Preprocessing

    catalog = read_catalog(data)
    loader = Loader(catalog.files, Preprocessing(size=8).resize_image, max_bad_share=1.0)
    with stages() as progress:
        for batch in loader:
            progress("decoding", int(batch.rows[-1]) + 1, len(catalog))
    rejected = loader.rejected
    bad = {rejection.row for rejection in rejected}
    usable = catalog.select([row for row in range(len(catalog)) if row not in bad])
    sizes = Counter(usable.labels)
    small = sorted(name for name in catalog.classes if sizes[name] < 2)
    label = dict(zip(usable.paths, usable.labels, strict=False))
    first: dict[str, str] = {}
    twins = {
        path: first[digest]
        for path, digest in zip(usable.paths, file_digests(usable.files), strict=True)
        if digest and first.setdefault(digest, path) != path
    }
    mixed = sum(label.get(one) != label.get(other) for one, other in twins.items())
    refused = _refused_by_train(data, bad_share=len(rejected) / len(catalog))
    if as_json:
        facts = {"images": len(catalog), "usable": len(usable), "classes": len(catalog.classes), "too_small": small}
        facts |= {"twins": twins, "twins_in_two_classes": mixed, "refused_by_train": refused}
        print(json.dumps(facts | {"rejected": rejected_as_json(rejected)}))
        raise Exit(int(bool(rejected)))
    print(f"{len(catalog):,} images, {len(usable):,} usable")
    if sizes:
        counts = sorted(sizes.values())
        spread = f"{counts[0]} to {counts[-1]} images, median {counts[len(counts) // 2]}"
        print(f"{len(sizes)} classes of {spread}")
    print_some("classes have fewer than two usable images", small)
    print_some("twins (equal files)", [f"{path} is {other}" for path, other in twins.items()])
    if mixed:
        print(f"{mixed:,} of the twins are in two classes: one of the labels is wrong")
    if refused is not None:
        print(f"surefind train would refuse this: {refused}")
    if rejected:
        for reason, count in Counter(one.reason for one in rejected).most_common(SHOWN):
            print(f"{count:6,d}  {reason}")
        print_some("rejected", [f"{one.path}: {one.reason}" for one in rejected])
        raise Exit(1)


def _refused_by_train(data: str, *, bad_share: float) -> str | None:
    """Return why training with the default settings would be refused."""
    from surefind.datasets import open_dataset
    from surefind.training.recipe import Recipe

    try:
        open_dataset(data)
    except SurefindError as error:
        return error.problem
    most = Recipe().data.max_bad_share
    return f"more than {most:.0%} of the images cannot be read" if bad_share > most else None
