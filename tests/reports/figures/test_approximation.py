"""The paper's simulation, drawn."""

import numpy as np
import pytest

from surefind.reports.figures import approximation
from surefind.reports.figures.approximation import approximation_figure, simulate


@pytest.fixture(scope="module")
def simulations():
    return list(simulate((1, 64), draws=5, samples=500))


def test_there_are_five_draws_of_each_dimension_and_none_is_another(simulations):
    assert [[draw.dim for draw in draws] for draws in simulations] == [[1] * 5, [64] * 5]
    assert len({float(draw.x[0]) for draws in simulations for draw in draws}) == 10


def test_the_saddlepoint_is_nearer_to_the_exact_law_than_the_normal_one(simulations):
    for draw in simulations[1]:
        assert draw.error("saddlepoint") < 1e-5 < draw.error("clt")


def test_samples_agree_with_the_exact_law(simulations):
    for draw in (draw for draws in simulations for draw in draws):
        shares = (draw.samples[:, None] < draw.x).double().mean(0)
        assert float((shares - draw.curves["exact"]).abs().max()) < 0.09  # Kolmogorov, 1 in 1000


def test_the_figure_has_a_panel_per_draw_and_one_of_errors_in_each_row(simulations):
    figure = approximation_figure(simulations)
    axes = np.array(figure.axes).reshape(2, 6)
    assert [axis.get_ylabel() for axis in axes[:, 0]] == ["D = 1", "D = 64"]
    assert [len(axis.get_lines()) for axis in axes[0]] == [3] * 5 + [10]


def test_the_largest_error_of_all_draws_is_told(monkeypatch):
    monkeypatch.setattr(approximation, "DIMENSIONS", (2,))
    _, table = approximation.draw_approximation(seed=3)
    (draws,) = simulate((2,), seed=3)
    assert table == {
        "2": {method: max(d.error(method) for d in draws) for method in ("clt", "saddlepoint")}
    }
