"""The losses in a plain training loop, on data whose doubt is known.

    python examples/toy.py

Items of 60 classes are patterns of 64 numbers, drowned in noise to a level of their own. A small
network learns to embed them as distributions from the first 40 classes; the table is about the
other 20. A good variance puts items in the order of their noise, which it was never told.
"""

import time

import torch
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr
from torch import Tensor, nn

import surefind as sf

CLASSES, TRAINED, DIM = 60, 40, 16
STEPS, BATCH_CLASSES, PER_CLASS = 300, 16, 4


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

    def __init__(self, family: type[sf.Embeddings]) -> None:
        super().__init__()
        self.family = family
        self.body = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.LayerNorm(128))
        self.mean = nn.Linear(128, DIM)
        self.spread = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, items: Tensor) -> sf.Embeddings:
        features = self.body(items)
        mean = nn.functional.normalize(self.mean(features), dim=1)
        var = nn.functional.softplus(self.spread(features).squeeze(1) - 3) + 1e-4
        return self.family(mean, 1 / var if self.family is sf.VonMisesFisher else var)


def train(loss: nn.Module, family: type[sf.Embeddings]) -> Encoder:
    torch.manual_seed(0)
    toy, encoder = Toy(), Encoder(family)
    optimiser = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    for _ in range(STEPS):
        labels = torch.randperm(TRAINED)[:BATCH_CLASSES].repeat_interleave(PER_CLASS)
        items, _ = toy.draw(labels)
        optimiser.zero_grad()
        loss(encoder(items), labels).backward()
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


def main() -> None:
    losses = sf.losses
    contestants = {
        "TripletLoss": (losses.TripletLoss(), sf.Gaussians),
        "TripletRegressionLoss": (losses.TripletRegressionLoss(), sf.Gaussians),
        "BayesianTripletLoss, the paper's": (losses.BayesianTripletLoss(), sf.Gaussians),
        "  the same, von Mises-Fisher": (losses.BayesianTripletLoss(), sf.VonMisesFisher),
        "  the same, saddlepoint": (losses.BayesianTripletLoss(method="saddlepoint"), sf.Gaussians),
        "  the same, centred": (losses.BayesianTripletLoss(centred=True), sf.Gaussians),
    }
    table = Table(title="on classes never trained on")
    for column in ("loss", "R@1", "variance ~ noise", "ms a step"):
        table.add_column(column, justify="left" if column == "loss" else "right")
    console = Console()
    with console.status("training") as status:
        for name, (loss, family) in contestants.items():
            status.update(f"training with {name.strip()}")
            start = time.perf_counter()
            encoder = train(loss, family)
            seconds = time.perf_counter() - start
            right, correlation = evaluate(encoder)
            knows = "-" if name == "TripletLoss" else f"{correlation:.2f}"
            table.add_row(name, f"{right:.3f}", knows, f"{1e3 * seconds / STEPS:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
