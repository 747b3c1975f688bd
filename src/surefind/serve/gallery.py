"""What is shown of a gallery as a whole: a sample of its images, variances, threshold curve."""

import base64
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from surefind.engines.engine import LONGEST_ID, Engine, EngineError
from surefind.errors import InvalidArgument
from surefind.metrics.calibration import reliability_bins
from surefind.search.confidence.calibration import Curve
from surefind.serve.schemas import (
    ReliabilityAnswer,
    SampleAnswer,
    ThresholdAnswer,
    UncertaintyAnswer,
)

MOST = 2000  # images of a sample; a map of them takes 11 s on one core
LOOK_AT = 100_000  # rows
TRIES = 3
SAMPLES = 8  # images of the gallery that the page offers to try
BINS = 32
CONSTANT = 1e-6  # variances that differ relatively by less say nothing
STEPS = 100  # of the threshold

_LONGEST_ITEM = (4 * LONGEST_ID + 2) // 3  # characters
_ITEM = re.compile(rf"[A-Za-z0-9_-]{{2,{_LONGEST_ITEM}}}", re.ASCII)


def item_of(id: str) -> str:  # noqa: A002
    """The name of an image in URLs, of which no path can be made: base64url without padding.

    >>> item_of("a/b.png")
    'YS9iLnBuZw'
    """
    return base64.urlsafe_b64encode(id.encode()).rstrip(b"=").decode()


def id_of(item: str) -> str | None:
    """The id that an item is the name of; None where `item_of` writes no such text.

    >>> id_of("YS9iLnBuZw")
    'a/b.png'
    """
    if not _ITEM.fullmatch(item):
        return None
    try:
        name = base64.urlsafe_b64decode(item + "=" * (-len(item) % 4)).decode()
    except ValueError:  # not base64 after all, or not UTF-8
        return None
    proper = "\0" not in name and item_of(name) == item  # one item an id: the last bits may differ
    return name if proper else None


@dataclass(frozen=True)
class GallerySample:
    """Images in random order, so that the first of them are an even sample as well."""

    ids: tuple[str, ...]
    labels: tuple[str | None, ...]
    var: NDArray[np.float64]  # (n,)
    means: NDArray[np.float32]  # (n, D)
    every_var: NDArray[np.float64]  # (rows looked at,), also of those that are not in the sample
    of: int  # rows there are

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def items(self) -> list[str]:
        return list(map(item_of, self.ids))

    @property
    def labelled(self) -> bool:
        return any(label is not None for label in self.labels)

    @cached_property
    def uncertainty(self) -> UncertaintyAnswer:
        return variance_histogram(self.every_var, self.of)

    def to_try(self, count: int = SAMPLES) -> list[SampleAnswer]:
        """Images of as many labels as there are: one of each before a second of any."""
        seen: Counter[str | None] = Counter()
        turns = []
        for row, label in enumerate(self.labels):
            turns.append((seen[label], row))
            seen[label] += 1
        return [
            SampleAnswer(
                name=self.ids[row],
                image=None,
                item=self.items[row],
                thumbnail=f"/v1/items/{self.items[row]}/thumbnail",
            )
            for _, row in sorted(turns)[:count]
        ]


def sample_gallery(engine: Engine, *, most: int = MOST, look_at: int = LOOK_AT) -> GallerySample:
    """Draw `most` of the first `look_at` rows, each as likely as any other; if fewer, all."""
    for _ in range(TRIES - 1):
        try:
            return _sample(engine, most=most, look_at=look_at)
        except (InvalidArgument, EngineError):  # another process removed a row in between
            continue
    return _sample(engine, most=most, look_at=look_at)


def _sample(engine: Engine, *, most: int, look_at: int) -> GallerySample:
    keys, every_var, count = [], [np.empty(0)], 0
    for block in engine.scan():
        keys.append(block.keys)
        every_var.append(block.var)
        count += len(block.keys)
        if count >= look_at:
            break
    var = np.concatenate(every_var)[:look_at]
    drawn = np.random.default_rng(0).permutation(len(var))[:most]
    rows = engine.rows(np.concatenate(keys)[drawn] if keys else np.empty(0, np.int64))
    labels = [metadata.get("label") for metadata in rows.metadata]
    return GallerySample(
        ids=rows.ids,
        labels=tuple(None if label is None else str(label) for label in labels),
        var=engine.space.var(rows.embeddings),
        means=rows.embeddings.mean.numpy(),
        every_var=var,
        of=max(engine.count(), len(var)),  # rows may have been removed since
    )


def variance_histogram(var: NDArray[np.float64], of: int) -> UncertaintyAnswer:
    """Count variances in bins that are even in log variance; no bins where all are equal."""
    edges, counts = np.empty(0), np.empty(0, np.int64)
    if len(var) and var.max() - var.min() > CONSTANT * var.max():
        edges = np.geomspace(var.min(), var.max(), BINS + 1)  # begins and ends there exactly
        counts, _ = np.histogram(var, edges)
    median = float(np.median(var)) if len(var) else None
    return UncertaintyAnswer(
        edges=edges.tolist(), counts=counts.tolist(), images=len(var), of=of, median=median
    )


def threshold_curve(curve: Curve, *, promised: float | None = None) -> list[ThresholdAnswer]:
    """For thresholds 0.00 to 1.00: how many first hits are as sure, how many of them right.

    Measured on the calibration's queries. The `promised` threshold has a row of its own.

    >>> curve = Curve(confidence=(0.9, 0.4), baseline=(0.5, 0.5), right=(True, False))
    >>> threshold_curve(curve)[50]
    ThresholdAnswer(threshold=0.5, coverage=0.5, precision=1.0, answered=1, right=1)
    """
    thresholds = np.arange(STEPS + 1) / STEPS
    if promised is not None:
        thresholds = np.union1d(thresholds, [promised])
    order = np.argsort(curve.confidence)
    confidence = np.array(curve.confidence)[order]
    right_up_to = np.concatenate([[0], np.cumsum(np.array(curve.right, dtype=np.int64)[order])])
    below = np.searchsorted(confidence, thresholds)  # equal to the threshold is sure enough
    answered, right = len(confidence) - below, right_up_to[-1] - right_up_to[below]
    return [
        ThresholdAnswer(
            threshold=threshold,
            coverage=count / max(len(confidence), 1),
            precision=matches / count if count else None,
            answered=count,
            right=matches,
        )
        for threshold, count, matches in zip(
            thresholds.tolist(), answered.tolist(), right.tolist(), strict=True
        )
    ]


def reliability(curve: Curve, bins: int = 10) -> list[ReliabilityAnswer]:
    """Bins of equal numbers of queries, least sure first: what was said and what was true.

    Queries of equal confidence stay together, so a bin may be larger than others or missing.
    """
    if not curve.confidence:
        return []
    found = reliability_bins(
        torch.tensor(curve.confidence, dtype=torch.float64),
        torch.tensor(curve.right, dtype=torch.float64),
        definition="probability",
        bins=bins,
    )
    rows = zip(*(part.tolist() for part in found), strict=True)
    return [
        ReliabilityAnswer(confidence=confidence, right=right, queries=int(queries))
        for confidence, right, queries in rows
        if queries
    ]
