"""A calibration at work: what it says of the hits of a search."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.engines.engine import Engine
from surefind.engines.knn import Nearest
from surefind.engines.space import Space
from surefind.functional.hits import HitDistances
from surefind.search.confidence.calibration import Calibration, Judged
from surefind.search.confidence.evidence import NEIGHBOURS, Numbers, Seen, see
from surefind.search.confidence.variance_heads import VarianceHeads
from surefind.search.neighbourhoods import Neighbourhoods, known_around

DOUBTED = 10  # neighbours of a query whose doubt is evidence


@dataclass(frozen=True)
class Calibrated:
    """A calibration, and what it needs to know of the gallery."""

    calibration: Calibration
    neighbourhoods: Neighbourhoods
    heads: VarianceHeads | None = None  # none where they could not be learned

    def judge(
        self,
        engine: Engine,
        query: Embeddings,
        near: Nearest,
        *,
        distances: HitDistances,
        inside: bool = False,
    ) -> Judged:
        """Of queries with at least NEIGHBOURS hits; `inside` if they are rows of the gallery."""
        return self.calibration.judge(
            self.see(engine, query, near, distances=distances, inside=inside)
        )

    def see(
        self,
        engine: Engine,
        query: Embeddings,
        near: Nearest,
        *,
        distances: HitDistances | None = None,
        inside: bool = False,
    ) -> Seen:
        keys, first, places = np.unique(
            near.keys[:, :NEIGHBOURS], return_index=True, return_inverse=True
        )
        vectors = near.vectors[:, :NEIGHBOURS].reshape(-1, engine.space.width)[first]
        ranking = self.calibration.origin.ranking
        around = known_around(engine, self.neighbourhoods, keys, vectors, ranking=ranking)
        return see(
            engine.space,
            query,
            near,
            around=around[places.reshape(len(query), -1)].astype(np.float64),
            **self._doubt(engine.space, query, near),
            distances=distances,
            inside=np.ones(len(query), dtype=bool) if inside else None,
        )

    def _doubt(self, space: Space, query: Embeddings, near: Nearest) -> dict[str, Numbers]:
        """Of queries and their nearest, all in one pass."""
        means = space.means(near.vectors[:, :DOUBTED]).astype(np.float32)
        everyone = np.concatenate([query.mean.numpy(), means.reshape(-1, space.dim)])
        both = doubt_of(self.heads, torch.from_numpy(everyone))
        of_near = both[len(query) :].reshape(len(query), -1)
        return {"doubt": both[: len(query)], "near_doubt": of_near.mean(axis=1)}


def doubt_of(heads: VarianceHeads | None, vectors: Tensor) -> Numbers:
    """Log variance of vectors (n, D), (n,); zero where there are no heads."""
    if heads is None:
        return np.zeros(len(vectors))
    with torch.inference_mode():
        log_var: Tensor = heads(vectors.detach().cpu().float()).mean(dim=1)
    return log_var.double().numpy()
