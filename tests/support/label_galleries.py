"""Galleries of vectors with labels, searched by brute force."""

from dataclasses import dataclass

import numpy as np
from clusters import DIM, gaussians

from surefind.confidence.class_table import ClassTable
from surefind.confidence.label_model import LabelNeighbourhood, label_neighbourhood
from surefind.embeddings import Gaussians


@dataclass(frozen=True)
class Labelled:
    """Vectors (N, D) and the code of each label, (N,); -1 is none."""

    vectors: np.ndarray
    codes: np.ndarray

    def at(self, rows) -> "Labelled":
        return Labelled(self.vectors[rows], self.codes[rows])

    @property
    def labels(self) -> list[str | None]:
        return [None if code < 0 else f"class {code}" for code in self.codes]

    @property
    def embeddings(self) -> Gaussians:
        return gaussians(self.vectors)

    @property
    def table(self) -> ClassTable:
        """Its codes are these codes."""
        every = [f"class {code}" for code in range(self.codes.max(initial=-1) + 1)]
        empty = ClassTable.empty(DIM).changed(np.zeros((len(every), DIM)), every)
        return empty.changed(np.zeros((len(every), DIM)), every, times=-1).changed(self.vectors, self.labels)


def overlapping(
    classes: int, per_class: int, *, seed: int = 0, noise: float = 0.5, unlabelled: float = 0.0
) -> Labelled:
    """Classes whose images are often nearest to one of another class; some have no label."""
    random = np.random.default_rng(seed)
    codes = np.arange(classes).repeat(per_class)
    mean = random.normal(size=(classes, DIM))[codes]
    vectors = (mean + noise * random.normal(size=mean.shape)).astype(np.float32).astype(float)
    return Labelled(vectors, np.where(random.random(len(codes)) < unlabelled, -1, codes))


def neighbourhood_of(
    gallery: Labelled, queries: np.ndarray, k: int = 20, *, inside: bool = False
) -> LabelNeighbourhood:
    """The k nearest of queries (Q, D), or of rows of the gallery, which are left out."""
    vectors = gallery.vectors[queries] if inside else queries
    distance = np.square(vectors[:, None] - gallery.vectors).sum(axis=2)
    if inside:
        distance[np.arange(len(queries)), queries] = np.inf
    order = np.argsort(distance, axis=1, kind="stable")[:, :k]
    own = gallery.codes[queries] if inside else None
    return label_neighbourhood(
        gallery.table,
        vectors,
        np.take_along_axis(distance, order, axis=1),
        gallery.codes[order],
        own=own,
        left_out=None if own is None else (own >= 0).astype(float),
    )
