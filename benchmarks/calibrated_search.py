"""What confidence and labels cost a search.

python benchmarks/calibrated_search.py [--count 100000] [--dim 512] [--index FOLDER] [--engine URL]
"""

import argparse
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from galleries import made_up, made_up_classes
from measure import interleaved, write

import surefind as sf
from surefind.engines.base import Space
from surefind.search.calibrations import Lazy

RESULTS = Path(__file__).parent / "results"
BATCHES = (1, 16, 256)
QUERIES = 256


def calibrated_index(folder: Path, count: int, dim: int, engine: str) -> sf.Index:
    """Made, and calibrated by its labels, once."""
    if folder.exists():
        return sf.Index.open(folder, engine=engine if "://" in engine else None)
    gallery, labels = made_up_classes(count, dim)
    index = sf.Index.create_empty(
        folder, Space(gallery.family, dim, "mean"), fingerprint="benchmark", engine=engine, kind="flat"
    )
    facts = [{"label": str(label)} for label in labels.tolist()]
    index.add_embeddings(gallery, [str(row) for row in range(count)], metadata=facts)
    index.calibrate(targets=sf.CalibrationTargets(precision=0.8))
    return index


def without_calibration(folder: Path, engine: str) -> sf.Index:
    """The same rows, as if the index were not calibrated."""
    plain = sf.Index.open(folder, engine=engine if "://" in engine else None)
    plain._calibrations._stored = Lazy(lambda: ([], None))
    return plain


def ask(index: sf.Index, queries: sf.Embeddings, batch: int) -> None:
    for start in range(0, len(queries), batch):
        index.search(queries[start : start + batch], k=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--index", type=Path, help="kept there, to be measured again")
    parser.add_argument("--engine", default="faiss", help="faiss, pgvector://... or milvus://...")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "calibrated.json")
    arguments = parser.parse_args()
    found = {}
    with TemporaryDirectory() as folder:
        place = arguments.index or Path(folder) / "index"
        index = calibrated_index(place, arguments.count, arguments.dim, arguments.engine)
        plain = without_calibration(place, arguments.engine)
        for batch in BATCHES:
            queries = made_up(min(QUERIES, 16 * batch), arguments.dim, seed=2)
            times = interleaved(
                {"plain": partial(ask, plain, queries, batch), "calibrated": partial(ask, index, queries, batch)},
                rounds=arguments.rounds,
                warmup=1,
            )
            ratio = times["calibrated"] / times["plain"]
            each = {name: 1000 * value / len(queries) for name, value in times.items()}
            found[f"{batch} at a time"] = {"ratio": ratio, "ms per query": each}
            print(f"{batch:4} at a time: {ratio:.3f} x", {n: f"{v:.2f} ms" for n, v in each.items()})
    size = {"count": arguments.count, "dim": arguments.dim}
    write({**size, "calibrated_search": found}, arguments.output)


if __name__ == "__main__":
    main()
