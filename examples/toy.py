"""The losses in a plain training loop, on data whose noise is known.

    python examples/toy.py

Items of 60 classes are patterns of 64 numbers, drowned in noise to a level of their own. A small
network learns to embed them as distributions from the first 40 classes; the table is about the
other 20. A good variance puts items in the order of their noise, which it never sees.
"""

from collections.abc import Iterator
from itertools import product
from statistics import mean
from typing import NamedTuple

import torch
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr
from torch import Tensor, nn

import surefind as sf

CLASSES, TRAINED, DIM = 60, 40, 16
STEPS, BATCH_CLASSES, PER_CLASS, SEEDS = 300, 16, 4, 3


class Toy:
    """Draws items (N, 64) of given classes, and says how noisy each is, from 0 to 1."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.centres = self._normal(CLASSES, 12)
        self.view = self._normal(12, 64) / 12**0.5

    def draw(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        latent = self.centres[labels] + 0.3 * self._normal(len(labels), 12)
        noise = torch.rand(len(labels), generator=self.generator)
        clean = torch.tanh(latent @ self.view)
        return clean + 2 * noise[:, None] * self._normal(len(labels), 64), noise

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator)


class Encoder(nn.Module):
    """A mean and a positive spread for each item."""

    def __init__(self, family: type[sf.Embeddings], *, unit_means: bool, layer_norm: bool) -> None:
        super().__init__()
        self.family = family
        self.unit_means = unit_means or family is sf.VonMisesFisher
        norm = nn.LayerNorm(128) if layer_norm else nn.Identity()
        self.body = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
        self.mean = nn.Linear(128, DIM)
        self.spread = nn.Sequential(norm, nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, items: Tensor) -> sf.Embeddings:
        features = self.body(items)
        mean = self.mean(features)
        if self.unit_means:
            mean = nn.functional.normalize(mean, dim=1)
        var = nn.functional.softplus(self.spread(features).squeeze(1) - 3) + 1e-4
        return self.family(mean, 1 / var if self.family is sf.VonMisesFisher else var)


class Contestant(NamedTuple):
    """A loss, and the encoder that it trains."""

    name: str
    loss: nn.Module
    family: type[sf.Embeddings] = sf.Gaussians
    unit_means: bool = True
    layer_norm: bool = False


def train(one: Contestant, seed: int) -> Encoder:
    torch.manual_seed(seed)
    encoder = Encoder(one.family, unit_means=one.unit_means, layer_norm=one.layer_norm)
    toy = Toy()
    optimiser = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    for _ in range(STEPS):
        labels = torch.randperm(TRAINED)[:BATCH_CLASSES].repeat_interleave(PER_CLASS)
        items, _ = toy.draw(labels)
        optimiser.zero_grad()
        one.loss(encoder(items), labels).backward()
        optimiser.step()
    return encoder


@torch.no_grad()
def evaluate(encoder: Encoder) -> tuple[float, float]:
    """Share of unseen items whose nearest one is right; rank correlation of variance and noise."""
    labels = torch.arange(TRAINED, CLASSES).repeat_interleave(30)
    items, noise = Toy().draw(labels)
    batch = encoder(items)
    distances = sf.functional.squared_distances(batch.mean, batch.mean).fill_diagonal_(torch.inf)
    right = (labels[distances.argmin(1)] == labels).float().mean().item()
    var = 1 / batch.spread if isinstance(batch, sf.VonMisesFisher) else batch.spread
    return right, float(spearmanr(var, noise).statistic)


def contestants() -> Iterator[Contestant]:
    losses = sf.losses
    yield Contestant("triplet", losses.TripletLoss())
    yield Contestant("triplet regression", losses.TripletRegressionLoss())
    vmf = losses.BayesianTripletLoss(sphere="gaussian")
    yield Contestant("Bayesian vMF", vmf, sf.VonMisesFisher)
    for unit_means, layer_norm, centred in product((False, True), repeat=3):
        name = "Bayesian, centred" if centred else "Bayesian, the paper's"
        loss = losses.BayesianTripletLoss(centred=centred)
        yield Contestant(name, loss, sf.Gaussians, unit_means, layer_norm)


def main() -> None:
    table = Table(title=f"on classes never trained on, mean of {SEEDS} seeds (lowest to highest)")
    for column in ("loss", "means", "LayerNorm", "R@1", "variance ~ noise"):
        table.add_column(column, justify="right" if column[0] in "Rv" else "left")
    console = Console()
    with console.status("training") as status:
        for one in contestants():
            status.update(f"training with {one.name}")
            found = [evaluate(train(one, seed)) for seed in range(SEEDS)]
            right, known = (sorted(column) for column in zip(*found, strict=True))
            spread = f"{mean(known):.2f} ({known[0]:.2f} to {known[-1]:.2f})"
            table.add_row(
                one.name,
                "unit" if one.unit_means else "free",
                "yes" if one.layer_norm else "no",
                f"{mean(right):.3f}",
                "-" if one.name == "triplet" else spread,
            )
    console.print(table)


if __name__ == "__main__":
    main()
