"""The table: both encoders, what distances say of each, and what surefind makes of them."""

from typing import NamedTuple

import torch

from surefind.demo.gallery import WISHES
from surefind.demo.reading import compared, how_to_read
from surefind.demo.table import Row, Told, lead, row_of, told_by_signals
from surefind.demo.vectors import Upgraded
from surefind.embeddings import Gaussians
from surefind.images.catalog import Catalog
from surefind.reports.signals import COSINE, signal_name
from surefind.search.index import Index

RATIO = "ratio_1_20"  # the best signal that needs no training
BASELINE, BAYESIAN = "triplet baseline", "Bayesian encoder"


class Comparison(NamedTuple):
    rows: tuple[Row, ...]
    reading: tuple[str, ...]


def compare(index: Index, own: Upgraded, *, gallery: Catalog, seed: int) -> Comparison:
    """Everything is about the same queries: the images of the gallery, in its order."""
    assert index.calibration is not None
    points = Gaussians(own.vectors, torch.ones(len(own.vectors)))
    of_points = told_by_signals(points, gallery, learned=False)
    learned = told_by_signals(index.items(gallery.ids).embeddings, gallery, learned=True)
    upgraded = Told.by_confidence(own.upgrade.calibration.curve)
    sure = Told.by_confidence(index.calibration.curve)

    def row(encoder: str, told_by: str, told: Told) -> Row:
        return row_of(encoder, told_by, told, groups=gallery.codes, precision=WISHES.precision)

    rows = (
        row(BASELINE, "nearest distance", of_points["nearest_distance"]),
        row(BASELINE, signal_name(COSINE), of_points[COSINE]),
        without := row(BASELINE, signal_name(RATIO), of_points[RATIO]),
        upgrade := row(BASELINE, "your own vectors + upgrade", upgraded),
        own_without := row(BAYESIAN, signal_name(RATIO), learned[RATIO]),
        row(BAYESIAN, "learned variance", learned["query_var"]),
        confidence := row(BAYESIAN, "surefind's confidence", sure),
    )
    ahead = lead(sure, learned[RATIO], groups=gallery.codes, seed=seed)
    upgrade_ahead = lead(upgraded, of_points[RATIO], groups=gallery.codes, seed=seed)
    reading = (
        how_to_read(len(gallery), len(gallery.classes), precision=WISHES.precision),
        compared(confidence, own_without, ahead),
        compared(upgrade, without, upgrade_ahead),
    )
    return Comparison(rows, reading)
