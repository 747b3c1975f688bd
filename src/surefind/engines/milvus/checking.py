"""Everything that is wrong with the rows of a collection, in sentences."""

from collections import Counter
from itertools import pairwise

import numpy as np

from surefind.engines.engine import Block
from surefind.engines.milvus import reading
from surefind.engines.milvus.driver import Collection
from surefind.engines.milvus.expressions import expression
from surefind.engines.space import Space


def check(collection: Collection, space: Space) -> list[str]:
    """Reads every row. What others write meanwhile can look like a wrong number of rows."""
    collection.catch_up()
    faults: Counter[str] = Counter()
    seen, last = 0, ""
    for block in reading.scan(collection, None, space):
        seen += len(block.keys)
        faults.update(_faults(block, last))
        last = block.keys[-1]
    wrong = [f"{_rows(number)} {fault}." for fault, number in faults.items() if number]
    counted = collection.count(expression(None))
    if counted != seen:
        wrong.append(f"The server counts {counted} rows and shows {seen}.")
    return wrong


def _faults(block: Block, before: str) -> dict[str, int]:
    names = [before, *block.keys.tolist()]
    finite = np.isfinite(block.vectors).all(axis=1)
    sound = np.isfinite(block.var) & (block.var > 0)
    repeated = sum(one >= other for one, other in pairwise(names))
    return {
        "a vector with numbers that are not finite": int((~finite).sum()),
        "a variance that is not positive and finite": int((~sound).sum()),
        "an id that another row has": repeated,
    }


def _rows(number: int) -> str:
    return "1 row has" if number == 1 else f"{number} rows have"
