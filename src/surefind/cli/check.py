"""surefind check: are these images fit to be used?"""

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.cli.options import DataArgument, JsonOption

if TYPE_CHECKING:
    from surefind.images.loader import Rejection


def check(
    data: DataArgument,
    as_json: JsonOption = False,
    shown: Annotated[int, typer.Option(help="Rejected images to list.")] = 20,
) -> None:
    """Decode every image and count: what is rejected, copies of files, classes that are too small.

    Exits with 1 when an image is rejected.

    Examples:
        surefind check photos/
        surefind check photos/ --json
        surefind check places.csv --shown 100
    """
    from surefind.cli.output import bars
    from surefind.datasets import read_catalog
    from surefind.images.loader import Loader
    from surefind.images.preprocess import Preprocessing
    from surefind.search.copies import file_digests

    catalog = read_catalog(data)
    loader = Loader(catalog.files, Preprocessing(size=8), max_bad_share=1.0)
    with bars() as progress:
        task = progress.add_task("decoding", total=len(catalog))
        for batch in loader:
            progress.update(task, completed=int(batch.rows[-1]) + 1)
    bad = {rejection.row for rejection in loader.rejected}
    sizes = Counter(label for row, label in enumerate(catalog.labels) if row not in bad)
    small = sorted(name for name in catalog.classes if sizes[name] < 2)
    usable = catalog.select([row for row in range(len(catalog)) if row not in bad])
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
            "rejected": [
                {"path": rejection.path, "reason": rejection.reason}
                for rejection in loader.rejected
            ],
        }
        print(json.dumps(findings))
    else:
        _tell(len(catalog), sizes, small, copies, loader.rejected, shown)
    if bad:
        raise typer.Exit(1)


def _tell(
    images: int,
    sizes: Counter[str],
    small: list[str],
    copies: dict[str, str],
    rejected: "list[Rejection]",
    shown: int,
) -> None:
    print(f"{images} images, {images - len(rejected)} usable")
    if sizes:
        counts = sorted(sizes.values())
        middle = counts[len(counts) // 2]
        print(f"{len(sizes)} classes of {counts[0]} to {counts[-1]} images, median {middle}")
    if small:
        names = ", ".join(small[:10]) + (", ..." if len(small) > 10 else "")
        print(f"{len(small)} classes with fewer than two usable images, never an anchor: {names}")
    if copies:
        path, first = next(iter(copies.items()))
        are = "file is a copy" if len(copies) == 1 else "files are copies"
        print(f"{len(copies)} {are} of another, such as {path} of {first}")
    if rejected:
        print(f"{len(rejected)} rejected:")
        for reason, count in Counter(r.reason for r in rejected).most_common(10):
            print(f"  {count:6d}  {reason}")
        for rejection in rejected[:shown]:
            print(f"  {rejection.path}: {rejection.reason}")
        if len(rejected) > shown:
            print(f"  and {len(rejected) - shown} more (--shown {len(rejected)})")
