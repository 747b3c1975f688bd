"""A calibration and a training run, drawn."""

from dataclasses import replace
from math import nan

import numpy as np
import pytest
from calibrations import GUARANTEE, make_calibration
from matplotlib.axes import Axes

from surefind.reports.figures.curves import draw_confidence, training_figure
from surefind.training.run_folder import StepInfo

NO_GUARANTEE = replace(GUARANTEE, threshold=None, coverage=0.0, selected=0, right=0)


def lines(axis: Axes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {
        str(line.get_label()).split(",")[0]: (
            np.asarray(line.get_xdata()),
            np.asarray(line.get_ydata()),
        )
        for line in axis.get_lines()
    }


def test_reliability_agrees_with_bins_made_by_hand():
    calibration = make_calibration()
    left, _ = draw_confidence(calibration).axes
    curve = calibration.curve
    for name, said in (("confidence", curve.confidence), ("nearest distance", curve.baseline)):
        order = np.argsort(said)
        x = [np.mean(np.array(said)[rows]) for rows in np.array_split(order, 10)]
        y = [np.mean(np.array(curve.right)[rows]) for rows in np.array_split(order, 10)]
        drawn = lines(left)[name]
        np.testing.assert_allclose(drawn[0], x)
        np.testing.assert_allclose(drawn[1], y)


def test_the_guarantee_is_marked_where_it_ends():
    _, other = draw_confidence(make_calibration()).axes
    found = lines(other)
    assert found["guarantee ends"][0].tolist() == [0.41]
    assert found["guarantee ends"][1].tolist() == pytest.approx([1 - 326 / 333])
    np.testing.assert_allclose(found["0.95 right"][1], 0.05)
    assert "from confidence 0.830 on: 41 % of queries" in other.get_title(loc="left")


def test_without_a_guarantee_nothing_is_marked_and_the_title_says_so():
    _, other = draw_confidence(make_calibration(guarantee=NO_GUARANTEE)).axes
    assert "guarantee ends" not in lines(other)
    assert other.get_title(loc="left") == "Precision 0.95 cannot be guaranteed"


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
