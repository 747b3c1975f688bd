"""R@1 on classes that training does not see: what decides when to stop."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from surefind.embeddings import Embeddings
from surefind.functional.distance import squared_distances
from surefind.images.catalog import Catalog
from surefind.images.matches import Matches

BLOCK = 1024  # queries at once


def recall_at_1(embeddings: Embeddings, rows: Tensor, catalog: Catalog, matches: Matches) -> float:
    """Share of queries whose nearest other image (by unit means) matches; NaN without queries.

    `rows` are the catalog's rows that were embedded. Queries without a match are left out.
    """
    unit = normalize(embeddings.mean, dim=1)
    asks = torch.tensor(catalog.queries, dtype=torch.bool)[rows] if catalog.queries else None
    queries = torch.arange(len(rows)) if asks is None else torch.nonzero(asks).squeeze(1)
    gallery = torch.arange(len(rows)) if asks is None else torch.nonzero(~asks).squeeze(1)
    right = counted = 0
    for block in queries.split(BLOCK):
        distances = squared_distances(unit[block], unit[gallery])
        distances[block[:, None] == gallery] = torch.inf
        same = torch.from_numpy(matches.is_match(rows[block].numpy(), rows[gallery].numpy()))
        same &= block[:, None] != gallery
        answerable = same.any(dim=1)
        hit = same.gather(1, distances.argmin(dim=1, keepdim=True)).squeeze(1)
        right += int((hit & answerable).sum())
        counted += int(answerable.sum())
    return right / counted if counted else float("nan")
