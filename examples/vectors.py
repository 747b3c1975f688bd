"""Vectors that no encoder of ours made, the raw pixels of glyphs, to be upgraded.

python examples/vectors.py FOLDER     labelled.npz, gallery.npz and asked.npz
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import surefind as sf
from surefind.images.catalog import Catalog

SIDE = 12  # pixels


def pixels(catalog: Catalog) -> NDArray[np.float32]:
    """Small grey pictures of length 1, (N, SIDE * SIDE)."""
    rows = [np.asarray(Image.open(file).convert("L").resize((SIDE, SIDE))) for file in catalog.files]
    vectors = np.stack(rows).reshape(len(rows), -1).astype(np.float32)
    vectors -= vectors.mean(axis=1, keepdims=True)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)


def main(folder: Path) -> None:
    glyphs = sf.open_dataset("glyphs")
    some = np.arange(0, len(glyphs.train), 2)
    labelled, gallery = glyphs.train.select(some), glyphs.test
    vectors = pixels(gallery)
    asked = np.arange(len(gallery)) % 700 == 5
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "labelled.npz", vectors=pixels(labelled), labels=np.array(labelled.labels))
    np.savez(
        folder / "gallery.npz",
        vectors=vectors[~asked],
        labels=np.array(gallery.labels)[~asked],
        ids=np.array(gallery.ids)[~asked],
    )
    np.savez(folder / "asked.npz", vectors=vectors[asked], ids=np.array(gallery.ids)[asked])
    print(f"{folder}: {len(labelled)} labelled vectors, {(~asked).sum()} to search, {asked.sum()} ask")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
