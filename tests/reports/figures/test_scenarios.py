"""What the loss asks of a triplet on a line."""

import pytest
import torch
from matplotlib.text import Annotation

from surefind.embeddings import Gaussians
from surefind.functional import triplet_log_prob
from surefind.reports.figures.scenarios import SCENARIOS, Scenario, descent, draw_scenarios

STEP = 1e-5


def loss(scenario: Scenario, method: str) -> float:
    dtype = torch.float64
    a, p, n = (
        Gaussians(torch.full((1, 1), mean, dtype=dtype), torch.full((1,), var, dtype=dtype))
        for mean, var in zip(scenario.means, scenario.variances, strict=True)
    )
    return -float(triplet_log_prob(a, p, n, method=method))


def moved(scenario: Scenario, part: str, number: int, by: float) -> Scenario:
    values = list(getattr(scenario, part))
    values[number] += by
    return scenario._replace(**{part: tuple(values)})


@pytest.mark.parametrize("method", ["exact", "clt"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.title)
def test_arrows_agree_with_finite_differences(scenario: Scenario, method: str):
    found = descent(scenario, method=method)
    for part, pull in (("means", found.mean), ("variances", found.var)):
        for number in range(3):
            above, below = (loss(moved(scenario, part, number, s), method) for s in (STEP, -STEP))
            assert float(pull[number]) == pytest.approx(-(above - below) / (2 * STEP), abs=1e-5)


def test_every_mean_is_pulled_towards_the_right_order():
    for scenario in SCENARIOS:
        for method in ("clt", "exact"):
            anchor, positive, negative = descent(scenario, method=method).mean.tolist()
            assert anchor < 0 < positive
            assert negative > 0


def test_by_the_exact_law_the_right_order_shrinks_variances_and_the_wrong_order_enlarges_them():
    right, wrong, _ = (descent(scenario, method="exact").var for scenario in SCENARIOS)
    assert (right < 0).all()
    assert (wrong > 0).all()


def test_by_the_papers_approximation_the_variance_of_a_well_placed_negative_grows():
    right, wrong, _ = (descent(scenario, method="clt").var for scenario in SCENARIOS)
    assert right[0] < 0 and right[1] < 0 < right[2]
    assert wrong[0] > 0 and wrong[1] < 0 < wrong[2]


def test_the_figure_has_an_arrow_per_mean_and_per_variance_for_both_laws():
    figure = draw_scenarios()
    arrows = [sum(isinstance(text, Annotation) for text in axis.texts) for axis in figure.axes]
    assert arrows == [6, 6, 6 + 2, 6, 6, 6]  # and two that tell the scale
    titles = [axis.get_title(loc="left") for axis in figure.axes[:3]]
    assert titles == [scenario.title for scenario in SCENARIOS]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["anchor", "positive", "negative"]
