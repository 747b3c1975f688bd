"""Step after step: a plan, and the inputs that the plan asks for."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from surefind.images.matches import Matches
from surefind.training.cache import NegativeCache, TupleBatches, choose_cached_rows
from surefind.training.objective import loss_margin
from surefind.training.plan import BalancedBatches, Plan, Rows
from surefind.training.recipe import Recipe
from surefind.training.source import Source
from surefind.training.views import Loaded, Order
from surefind.training.world import World


class Batch(NamedTuple):
    """One step: what all processes do, and what this one was given to embed."""

    plan: Plan
    loaded: Loaded
    first: int  # position in the plan of this process's first row


@dataclass
class Batches:
    """The batches of a phase, from any step on; fills the cache of negatives when it is due."""

    recipe: Recipe
    matches: Matches
    rows: Rows
    offset: int  # of this phase among all steps
    source: Source
    world: World
    cache: NegativeCache | None = None

    def between(self, start: int, end: int) -> Iterator[Batch]:
        """Those of the steps start ... end - 1 of the phase."""
        every = self.recipe.mining.every if self._mines else end
        while start < end:
            stop = min(end, (start // every + 1) * every)
            if self._mines and (self.cache is None or start % every == 0):
                self.cache = self._fill(start)
            yield from self._load(self._plans(), start, stop)
            start = stop

    @property
    def _mines(self) -> bool:
        return self.recipe.batch.kind == "tuples"

    def _fill(self, step: int) -> NegativeCache:
        part, seed = self.recipe.mining, self.recipe.seed
        rows = choose_cached_rows(
            self.matches, self.rows, size=part.cache, seed=seed, step=self.offset + step
        )
        ours, embeddings = self.source.embed_rows(rows[self.world.share(len(rows))])
        return NegativeCache(
            self.world.gather_numbers(ours), self.world.gather(embeddings).to("cpu"), step
        )

    def _plans(self) -> Callable[[int], Plan]:
        batch, mining, seed = self.recipe.batch, self.recipe.mining, self.recipe.seed
        if self.cache is None:
            return BalancedBatches(self.matches, self.rows, batch.classes, batch.images, seed).plan
        return TupleBatches(
            self.matches,
            self.cache,
            tuples=batch.tuples,
            negatives=batch.negatives,
            margin=loss_margin(self.recipe.loss),
            candidates=mining.candidates,
            seed=seed,
            uncertainty=mining.uncertainty,
            skip_share=mining.skip_share,
            skip_above=mining.skip_above,
        ).plan

    def _load(self, plan_of: Callable[[int], Plan], start: int, end: int) -> Iterator[Batch]:
        plans: deque[Plan] = deque()  # loading runs ahead of training

        def orders() -> Iterator[Order]:
            for step in range(self.offset + start, self.offset + end):
                plan = plan_of(step)
                plans.append(plan)
                yield Order(step, plan.rows[self.world.share(len(plan.rows))])

        for loaded in self.source.load(orders()):
            plan = plans.popleft()
            yield Batch(plan, loaded, self.world.share(len(plan.rows)).start)
