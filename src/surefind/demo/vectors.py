"""Vectors as anybody may have them: the baseline's, which says nothing about how sure it is."""

from typing import NamedTuple

import numpy as np
from torch import Tensor

from surefind.demo.folder import DemoFolder
from surefind.demo.gallery import WISHES
from surefind.demo.stages import Tell
from surefind.encoders.encoder import Encoder
from surefind.files import whole_file
from surefind.images.catalog import Catalog
from surefind.reports.encoded import embed_catalog
from surefind.upgrade.calibrate import calibrate
from surefind.upgrade.upgrade import Upgrade
from surefind.upgrade.vectors import read_vectors


class Upgraded(NamedTuple):
    """Vectors (N, D) in the order of the gallery, and what makes them say how sure a hit is."""

    vectors: Tensor
    upgrade: Upgrade
    reused: bool


def upgraded(
    encoder: Encoder, gallery: Catalog, folder: DemoFolder, *, seed: int, tell: Tell
) -> Upgraded:
    """The vectors are written to a file with labels and ids; the upgrade to a folder beside it."""
    embedded = embed_catalog(
        encoder,
        gallery,
        kept_in=folder.baseline / "embeddings",
        max_bad_share=0.0,
        progress=lambda done: tell("encoding", done, len(gallery)),
    )
    vectors = embedded.embeddings.mean
    if _is_known(folder, vectors, gallery):
        return Upgraded(vectors, Upgrade.load(folder.vectors_model), reused=True)
    upgrade = calibrate(vectors, gallery.labels, wishes=WISHES, seed=seed, progress=tell)
    upgrade.save(folder.vectors_model)
    with whole_file(folder.vectors) as file:  # last: it says that the upgrade is there
        np.savez(
            file,
            vectors=vectors.numpy(),
            labels=np.array(gallery.labels),
            ids=np.array(gallery.ids),
        )
    return Upgraded(vectors, upgrade, reused=False)


def _is_known(folder: DemoFolder, vectors: Tensor, gallery: Catalog) -> bool:
    """Whether an earlier run upgraded the same vectors."""
    if not folder.vectors.is_file():
        return False
    found = read_vectors(folder.vectors)
    return found.ids == gallery.ids and np.array_equal(found.values, vectors.numpy())
