"""Retrieval and uncertainty on classes that training does not see: what decides when to stop."""

from typing import NamedTuple

import torch
from torch import Tensor

from surefind.embeddings import Embeddings, VonMisesFisher
from surefind.functional.distance import squared_distances
from surefind.images.catalog import Catalog
from surefind.images.matches import Matches
from surefind.metrics.detection import auroc
from surefind.metrics.retrieval import average_precision_at_r

BLOCK = 1024  # queries at once
NAN = float("nan")


class Validation(NamedTuple):
    """Measures by the model's own distances of means; NaN where there is nothing to measure."""

    recall: float = NAN  # R@1
    map_at_r: float = NAN
    variance_auroc: float = NAN  # of a wrong first hit, by the variance of the query


def validate(
    embeddings: Embeddings, rows: Tensor, catalog: Catalog, matches: Matches
) -> Validation:
    """Search each query among the other images; `rows` are the catalog's rows that were embedded.

    Queries without a match are left out.
    """
    means = embeddings.mean
    asks = torch.tensor(catalog.queries, dtype=torch.bool)[rows] if catalog.queries else None
    queries = torch.arange(len(rows)) if asks is None else torch.nonzero(asks).squeeze(1)
    gallery = torch.arange(len(rows)) if asks is None else torch.nonzero(~asks).squeeze(1)
    right, precision, answered = [], [], []
    for block in queries.split(BLOCK):
        distances = squared_distances(means[block], means[gallery])
        distances[block[:, None] == gallery] = torch.inf
        same = torch.from_numpy(matches.is_match(rows[block].numpy(), rows[gallery].numpy()))
        same &= block[:, None] != gallery
        counts = same.sum(dim=1)
        answerable = counts > 0
        most = int(counts.max()) if len(counts) else 0
        if most == 0:
            continue
        nearest = distances.topk(most, largest=False).indices
        hits = same.gather(1, nearest)[answerable]
        precision.append(average_precision_at_r(hits, counts[answerable]))
        right.append(hits[:, 0])
        answered.append(block[answerable])
    if not right:
        return Validation()
    correct = torch.cat(right)
    spread = embeddings.spread[torch.cat(answered)].double()
    var = 1 / spread if isinstance(embeddings, VonMisesFisher) else spread
    both = 0 < int(correct.sum()) < len(correct)
    return Validation(
        float(correct.double().mean()),
        float(torch.cat(precision).mean()),
        auroc(var, ~correct) if both else NAN,
    )
