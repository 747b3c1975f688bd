"""Sketches to draw from."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from surefind.serve.gallery.items import item_of
from surefind.serve.gallery.sketch import Sketch

MakeSketch = Callable[..., Sketch]


@pytest.fixture
def make_sketch() -> MakeSketch:
    def make(count: int, *, labels: Sequence[str | None] | None = None, seed: int = 0) -> Sketch:
        random = np.random.default_rng(seed)
        ids = tuple(f"{number:03d}.png" for number in range(count))
        var = random.uniform(0.01, 0.1, count)
        return Sketch(
            ids=ids,
            items=tuple(map(item_of, ids)),
            labels=tuple(labels) if labels is not None else (None,) * count,
            var=var,
            means=random.normal(size=(count, 5)).astype(np.float32),
            every_var=var,
            images=count,
            of=count + 1000 if count else 0,
        )

    return make
