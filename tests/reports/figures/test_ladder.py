"""Uncertainty over corruption."""

import dataclasses

import numpy as np
import pytest

from surefind.reports.figures.ladder import draw_ladder
from surefind.reports.figures.missing import NothingToDraw


def panels(figure):
    return {axis.get_title(loc="left"): axis for axis in figure.axes if axis.get_title(loc="left")}


def test_every_kind_has_a_panel_with_a_curve_per_signal(evaluation):
    found = panels(draw_ladder(*evaluation))
    assert list(found) == ["blur", "occlusion", "crop", "noise"]
    assert len(found["blur"].get_lines()) == 8


def test_curves_are_relative_to_the_clean_image(evaluation):
    result, queries = evaluation
    rungs = tuple(
        dataclasses.replace(rung, signals={n: 7 * v for n, v in rung.signals.items()})
        for rung in result.ladder.rungs
    )
    result = dataclasses.replace(result, ladder=dataclasses.replace(result.ladder, rungs=rungs))
    curve = panels(draw_ladder(result, queries))["crop"].get_lines()[0]
    np.testing.assert_allclose(curve.get_ydata(), [1, 1.2, 1.4, 1.6, 1.8, 2])


def test_recall_is_drawn_on_its_own_axis(evaluation):
    twins = [axis for axis in draw_ladder(*evaluation).axes if not axis.get_title(loc="left")]
    assert len(twins) == 4
    np.testing.assert_allclose(twins[0].get_lines()[0].get_ydata(), [0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_without_a_ladder_the_error_says_how_to_get_one(evaluation):
    result, queries = evaluation
    with pytest.raises(NothingToDraw, match="--ladder"):
        draw_ladder(dataclasses.replace(result, ladder=None), queries)
