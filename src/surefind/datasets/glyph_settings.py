"""What determines every pixel of the built-in data."""

from dataclasses import dataclass

from surefind.errors import InvalidArgument


@dataclass(frozen=True)
class GlyphSettings:
    """What determines every pixel; the version changes whenever the drawing does."""

    classes: int = 320  # 5/8 to train on, 1/8 to validate on, 1/4 to test on
    per_class: int = 28
    foreign: int = 600  # images of symbols, which are no letters
    seed: int = 0
    version: int = 1

    def __post_init__(self) -> None:
        for name, least in (("classes", 16), ("per_class", 2), ("foreign", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise InvalidArgument(
                    name,
                    expected=f"{least} or more",
                    got=str(getattr(self, name)),
                    fix="leave it out for the usual size",
                )
