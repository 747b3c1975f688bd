"""A calibration at work: what it says of the hits of a search."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.engines.engine import Engine
from surefind.engines.space import Space
from surefind.search.confidence.calibration import Calibration, Judged
from surefind.search.doubt.heads import VarianceHeads, spread_over_heads
from surefind.search.evidence.seeing import see
from surefind.search.evidence.seen import NEIGHBOURS, Numbers, Seen
from surefind.search.nearest import Nearest
from surefind.search.neighbourhoods import Neighbourhoods, known_around

DOUBTED = 10  # neighbours of a query whose doubt is evidence


@dataclass(frozen=True)
class Calibrated:
    """A calibration, and what it needs to know of the gallery."""

    calibration: Calibration
    neighbourhoods: Neighbourhoods
    heads: VarianceHeads | None = None  # none where they could not be learned

    def judge(self, engine: Engine, query: Embeddings, near: Nearest) -> Judged:
        """Of queries with at least NEIGHBOURS hits."""
        return self.calibration.judge(self.see(engine, query, near))

    def see(self, engine: Engine, query: Embeddings, near: Nearest) -> Seen:
        keys, places = np.unique(near.keys[:, :NEIGHBOURS], return_inverse=True)
        ranking = self.calibration.origin.ranking
        around = known_around(engine, self.neighbourhoods, keys, ranking=ranking)
        return see(
            engine.space,
            query,
            near,
            around=around[places.reshape(len(query), -1), :NEIGHBOURS].astype(np.float64),
            doubt=doubt_of(self.heads, query),
            near_doubt=self._near_doubt(engine.space, near),
        )

    def _near_doubt(self, space: Space, near: Nearest) -> Numbers:
        means = space.means(near.vectors[:, :DOUBTED])
        flat = torch.from_numpy(np.ascontiguousarray(means.reshape(-1, space.dim)))
        return np.asarray(log_var_of(self.heads, flat).reshape(len(means), -1).mean(axis=1))


def doubt_of(heads: VarianceHeads | None, query: Embeddings) -> Numbers:
    """Log variance and disagreement of the heads, (Q, 2); nothing where there are none."""
    if heads is None:
        return np.zeros((len(query), 2))
    with torch.inference_mode():
        logs = heads(query.mean.detach().cpu().float())
        both = torch.stack([logs.mean(dim=1), spread_over_heads(logs)], dim=1)
    return both.double().numpy()


def log_var_of(heads: VarianceHeads | None, vectors: Tensor) -> Numbers:
    """Of vectors (n, D), (n,); zero where there are no heads."""
    if heads is None:
        return np.zeros(len(vectors))
    with torch.inference_mode():
        return np.asarray(heads(vectors.float()).mean(dim=1).double())
