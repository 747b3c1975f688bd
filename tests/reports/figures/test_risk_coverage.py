"""Error rate over the share of queries answered."""

import numpy as np

from surefind.reports.figures.risk_coverage import draw_risk_coverage


def lines(figure):
    return {line.get_label().split("\n")[0]: line for line in figure.axes[0].get_lines()}


def test_a_curve_agrees_with_a_loop(evaluation):
    result, queries = evaluation
    own = queries.own()
    errors, risks = 0, []
    for answered, row in enumerate(np.argsort(own["means.signal.query_var"]), start=1):
        errors += not own["means.match_1"][row]
        risks.append(errors / answered)
    curve = lines(draw_risk_coverage(result, queries))["query variance"]
    np.testing.assert_allclose(curve.get_ydata(), risks)
    np.testing.assert_allclose(curve.get_xdata(), np.arange(1, 121) / 120)


def test_learned_signals_are_solid_and_free_ones_dashed(evaluation):
    found = lines(draw_risk_coverage(*evaluation))
    assert found["query variance"].get_linestyle() == "-"
    assert found["d₁/d₂"].get_linestyle() == "--"
    assert found["cosine + Platt"].get_linestyle() == ":"  # the nearest distance shows through
    assert len({line.get_color() for line in found.values()}) == len(found) == 10


def test_the_oracle_lies_below_every_curve_and_random_is_the_error_rate(evaluation):
    result, queries = evaluation
    found = lines(draw_risk_coverage(result, queries))
    best = np.asarray(found["oracle"].get_ydata())
    assert (best <= np.asarray(found["query variance"].get_ydata()) + 1e-12).all()
    error = 1 - queries.own()["means.match_1"].mean()
    np.testing.assert_allclose(found["random"].get_ydata(), error)


def test_the_legend_tells_the_area(evaluation):
    figure = draw_risk_coverage(*evaluation)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "query variance\nAURC 0.200" in texts
