"""Who asks, who is searched, and what counts as a match."""

from typing import NamedTuple

import numpy as np

from surefind.errors import SurefindError
from surefind.images.catalog import Catalog
from surefind.images.matches import ByPosition, Mask, Matches, Rows, matches_of


class Protocol(NamedTuple):
    """Rows of one catalog as queries and gallery; a query is never in its own gallery."""

    queries: Rows
    gallery: Rows
    itself: Rows | None  # each query's own place in the gallery; None: they have none in common
    n_matches: Rows  # of each query, in the gallery
    matches: Matches
    description: str

    def hits(self, places: Rows, queries: Rows | None = None) -> Mask:
        """Which of the found (Q, K) places in the gallery match their query."""
        asking = self.queries if queries is None else queries
        return self.matches.match_pairs(asking[:, None], self.gallery[places])


def protocol_of(catalog: Catalog, *, radius: float = 25.0) -> Protocol:
    """Queries search the others where the catalog says who asks; else each searches all others."""
    matches = matches_of(catalog, radius)
    rows = np.arange(len(catalog))
    if catalog.queries:
        asks = np.array(catalog.queries)
        queries, gallery, itself = rows[asks], rows[~asks], None
        who = f"{len(queries):,} queries search {len(gallery):,} other images"
    else:
        queries = gallery = itself = rows
        who = f"each of {len(rows):,} images searches all the others"
    if not len(queries) or len(gallery) < 2:
        raise SurefindError(
            f"{catalog.root}: {len(queries)} queries and a gallery of {len(gallery)}",
            fix="evaluation needs at least one query and two images to search",
        )
    n_matches = matches.count(queries, gallery)
    if not n_matches.any():
        fix = "check the labels: no two images share one"
        if isinstance(matches, ByPosition):
            fix = "check the positions (degrees or metres?), or allow a larger --radius"
        elif catalog.queries:
            fix = "check the labels: queries and gallery have none in common"
        problem = f"none of the {len(queries)} queries has a match in the gallery"
        raise SurefindError(f"{catalog.root}: {problem}", fix=fix)
    what = (
        f"taken within {radius:g} m of each other"
        if isinstance(matches, ByPosition)
        else "of the same label"
    )
    return Protocol(queries, gallery, itself, n_matches, matches, f"{who}; images {what} match")
