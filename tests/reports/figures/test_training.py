"""The curves of a run."""

from math import nan

from surefind.reports.figures.training import draw_training, training_figure
from surefind.training.log import StepInfo


def step(number: int, *, loss: float = nan, recall: float = nan) -> StepInfo:
    return StepInfo(number, loss, 0.5, 0.1, 100, 1.0, 1e-4, 2.0 * number, recall, nan, nan)


LOG = [
    step(1, loss=0.9),
    step(2, loss=0.7),
    step(2, recall=0.4),
    step(3, loss=0.6),
    step(3, recall=0.3),
]


def test_loss_and_recall_are_drawn_and_the_highest_recall_is_marked():
    loss, _, recall = training_figure(LOG).axes
    assert loss.get_lines()[0].get_ydata().tolist() == [0.9, 0.7, 0.6]
    assert "best: 0.400" in recall.get_title(loc="left")


def test_a_run_without_steps_is_drawn_empty(tmp_path):
    draw_training([], tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
