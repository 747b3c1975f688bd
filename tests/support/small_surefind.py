"""The command `surefind` with short training and few glyphs; as a module, the same for Python."""

from collections.abc import Sequence
from pathlib import Path

from surefind.cli.main import main
from surefind.datasets import glyphs
from surefind.training.recipe import Recipe

SHORT = (
    "encoder.backbone=tiny", "encoder.weights=none", "encoder.dim=16", "encoder.size=16",
    "encoder.start=random", "batch.classes=4", "batch.images=3", "batch.tuples=4", "batch.chunk=0",
    "mining.cache=60", "optimiser.freeze_first=[]", "augment.size=16", "augment.views=1",
    "schedule.steps=6", "schedule.validate_every=3", "variance.steps=0",
)  # fmt: skip
FEW_GLYPHS = {"classes": 40, "per_class": 8, "foreign": 12}

_read = Recipe.read.__func__  # type: ignore[attr-defined]


def _read_short(cls: type[Recipe], source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    _read(cls, source, overrides)  # it must be right as it is
    return _read(cls, source, [*overrides, *SHORT])


if __name__ == "__main__":
    Recipe.read = classmethod(_read_short)  # type: ignore[assignment]
    glyphs.draw_glyphs.__kwdefaults__.update(FEW_GLYPHS)
    main()
