"""surefind check: find images that cannot be used."""

import json
from collections import Counter
from typing import Annotated

from typer import Exit, Option

from surefind.cli.options import DataArgument, JsonOption
from surefind.cli.output import bars, rejected_as_json


def check(
    data: DataArgument,
    as_json: JsonOption = False,
    shown: Annotated[int, Option(help="Number of rejected images to list.")] = 20,
) -> None:
    """Decode every image; count rejected images, duplicate files, and classes that are too small.

    Exit code 1 if an image is rejected.

    Examples:
        surefind check photos/
        surefind check photos/ --json
        surefind check places.csv --shown 100
    """
    from surefind.datasets import read_catalog
    from surefind.images.digest import file_digests
    from surefind.images.loader import Loader
    from surefind.images.preprocess import Preprocessing

    catalog = read_catalog(data)
    loader = Loader(catalog.files, Preprocessing(size=8).resize_image, max_bad_share=1.0)
    with bars() as progress:
        task = progress.add_task("decoding", total=len(catalog))
        for batch in loader:
            progress.update(task, completed=int(batch.rows[-1]) + 1)
    rejected = loader.rejected
    bad = {rejection.row for rejection in rejected}
    usable = catalog.select([row for row in range(len(catalog)) if row not in bad])
    sizes = Counter(usable.labels)
    small = sorted(name for name in catalog.classes if sizes[name] < 2)
    first: dict[str, str] = {}
    copies = {
        path: first[digest]
        for path, digest in zip(usable.paths, file_digests(usable.files), strict=True)
        if digest and first.setdefault(digest, path) != path
    }
    if as_json:
        findings = {
            "images": len(catalog),
            "usable": len(usable),
            "classes": len(catalog.classes),
            "too_small": small,
            "copies": copies,
            "rejected": rejected_as_json(rejected),
        }
        print(json.dumps(findings))
        raise Exit(int(bool(rejected)))
    print(f"{len(catalog)} images, {len(usable)} usable")
    if sizes:
        counts = sorted(sizes.values())
        spread = f"{counts[0]} to {counts[-1]} images, median {counts[len(counts) // 2]}"
        print(f"{len(sizes)} classes of {spread}")
    if small:
        names = ", ".join(small[:10]) + (", ..." if len(small) > 10 else "")
        print(f"{len(small)} classes have fewer than two usable images: {names}")
    if copies:
        path, original = next(iter(copies.items()))
        print(f"duplicate files: {len(copies)}, such as {path} of {original}")
    if rejected:
        print(f"{len(rejected)} rejected:")
        for reason, count in Counter(one.reason for one in rejected).most_common(10):
            print(f"  {count:6d}  {reason}")
        for one in rejected[:shown]:
            print(f"  {one.path}: {one.reason}")
        if len(rejected) > shown:
            print(f"  and {len(rejected) - shown} more (--shown {len(rejected)})")
        raise Exit(1)
