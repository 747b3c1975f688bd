"""Three pictures to search the glyphs with: a clear one, a spoilt one, and no glyph at all.

python examples/queries.py FOLDER
"""

import shutil
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import surefind as sf

GLYPHS = {"clear.png": "test/U+0394/012.png", "spoilt.png": "test/U+0292/007.png"}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    test = sf.open_dataset("glyphs").test
    for name, path in GLYPHS.items():
        shutil.copy(test.root / path, folder / name)
    squares = (np.indices((64, 64)) // 8).sum(axis=0) % 2
    Image.fromarray((255 * squares).astype(np.uint8)).save(folder / "squares.png")
    print(f"{folder}: {', '.join([*GLYPHS, 'squares.png'])}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
