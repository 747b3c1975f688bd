"""How much the demo does."""

from dataclasses import dataclass

from surefind.datasets.glyph_settings import GlyphSettings
from surefind.training.recipe import Recipe


@dataclass(frozen=True)
class DemoSize:
    """The usual size is for two minutes on two cores; tests do with less."""

    classes: int = GlyphSettings.classes
    per_class: int = GlyphSettings.per_class
    foreign: int = GlyphSettings.foreign
    steps: int = 400  # of training, of either encoder
    batch_classes: int = 32
    ladder: int = 40  # queries that the report corrupts step by step

    @property
    def is_usual_data(self) -> bool:
        return self.glyphs == GlyphSettings()

    @property
    def glyphs(self) -> GlyphSettings:
        return GlyphSettings(self.classes, per_class=self.per_class, foreign=self.foreign)

    def recipe(self, seed: int) -> Recipe:
        """Of the Bayesian encoder."""
        return _shortened("bayes-centred+glyphs", self.steps, self.batch_classes, seed)

    def baseline_recipe(self, seed: int) -> Recipe:
        return _shortened("triplet+glyphs", self.steps, self.batch_classes, seed)


def _shortened(recipe: str, steps: int, classes: int, seed: int) -> Recipe:
    """A recipe with fewer steps."""
    changes = {
        "seed": seed,
        "batch.classes": classes,
        "schedule.steps": steps,
        "schedule.validate_every": max(1, steps // 5),
        "schedule.checkpoint_every": max(1, steps // 10),  # lost by an interruption, at most
    }
    return Recipe.read(recipe, [f"{key}={value}" for key, value in changes.items()])
