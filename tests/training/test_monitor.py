"""TrainingMonitor: silent in a healthy run; warns, then stops training, if a symptom lasts."""

import pytest
import torch
from torch.nn.functional import normalize

import surefind as sf
from surefind.training.monitor import ADVICE, TrainingMonitor, TrainingStopped


def healthy(count: int = 20) -> sf.Gaussians:
    torch.manual_seed(0)
    return sf.Gaussians(normalize(torch.randn(count, 8), dim=1), torch.full((count,), 0.01))


def check(monitor: TrainingMonitor, step: int, loss: float = 1.0, gradient: float = 1.0, embeddings=None) -> None:
    monitor.check_step(
        loss=torch.tensor(loss), gradient=torch.tensor(gradient), embeddings=embeddings or healthy(), step=step
    )


def test_a_healthy_run_is_left_alone(caplog):
    monitor = TrainingMonitor(floor=1e-6)
    for step in range(100):
        check(monitor, step, loss=1 / (1 + step))
    assert not caplog.records


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_stops_at_once(value: float):
    with pytest.raises(TrainingStopped, match="loss is not finite"):
        check(TrainingMonitor(floor=0), 3, loss=value)
    with pytest.raises(TrainingStopped, match="gradient is not finite"):
        check(TrainingMonitor(floor=0), 3, gradient=value)


SAME_POINT = sf.Gaussians(torch.ones(20, 8), torch.full((20,), 0.01))
AT_FLOOR = sf.Gaussians(healthy().mean, torch.full((20,), 1e-6))
WIDE = sf.Gaussians(healthy().mean, torch.full((20,), 1e6))
UNIFORM = sf.VonMisesFisher(healthy().mean, torch.full((20,), 0.05))  # every gradient vanishes


@pytest.mark.parametrize(
    ("symptom", "shown"),
    [
        ("all images are embedded at one point", {"embeddings": SAME_POINT}),
        ("the variance has collapsed to its floor", {"embeddings": AT_FLOOR}),
        ("the variance explodes", {"embeddings": WIDE}),
        ("the variance explodes", {"embeddings": UNIFORM}),
        ("the loss is far above where it started", {"loss": 100.0}),
    ],
)
def test_a_lasting_symptom_is_warned_of_and_then_stops_training(symptom: str, shown, caplog):
    monitor = TrainingMonitor(floor=1e-6)
    check(monitor, 0)
    for step in range(1, 10):
        check(monitor, step, **shown)
    with pytest.raises(TrainingStopped) as caught:
        check(monitor, 10, **shown)
    assert symptom in caught.value.problem
    assert caught.value.fix == ADVICE[symptom]
    assert [symptom in record.getMessage() for record in caplog.records] == [True]


def test_a_symptom_that_passes_is_forgotten():
    monitor = TrainingMonitor(floor=1e-6)
    check(monitor, 0)
    for step in range(200):
        check(monitor, step, loss=1.0 if step % 8 == 7 else 100.0)


def test_batches_without_a_triplet_stop_training():
    monitor = TrainingMonitor(floor=0)
    for step in range(9):
        monitor.count(["no batch has a triplet"], step)
    with pytest.raises(TrainingStopped, match="no batch has a triplet"):
        monitor.count(["no batch has a triplet"], 9)


def test_a_resumed_monitor_stops_at_the_same_step():
    monitor, resumed = TrainingMonitor(floor=0), TrainingMonitor(floor=0)
    check(monitor, 0, loss=1.0)
    for step in range(1, 6):
        check(monitor, step, loss=100.0)
    resumed.load_state_dict(monitor.state_dict())
    for step in range(6, 10):
        check(resumed, step, loss=100.0)
    with pytest.raises(TrainingStopped, match="far above where it started"):
        check(resumed, 10, loss=100.0)
