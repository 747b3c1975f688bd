"""How wrong the answers are when only the surest queries are answered."""

import numpy as np
import torch
from matplotlib.figure import Figure

from surefind.metrics import risk_coverage
from surefind.reports.figures.palette import GREY, INK
from surefind.reports.figures.panels import caption, panels, side_key
from surefind.reports.figures.signals import signal_styles
from surefind.reports.names import ranking_name, signal_name
from surefind.reports.queries import QueryTable
from surefind.reports.result import EvalResult

_NOISE = 0.1  # below this share of queries the curves jump; they set no limit of the axis


def draw_risk_coverage(
    result: EvalResult, queries: QueryTable, *, ranking: str = "means"
) -> Figure:
    """One curve per signal, between the best possible order (oracle) and a random one."""
    own = queries.own()
    signals, right = own.signals(ranking), torch.from_numpy(own[f"{ranking}.match_1"])
    error = 1 - float(right.double().mean())
    figure, ((axis,),) = panels(1, 1, height=4.2)
    top = error
    for name, style in signal_styles(signals).items():
        known = np.isfinite(signals[name])
        curve = risk_coverage(torch.from_numpy(-signals[name][known]), right[known])
        area = result.rankings[ranking].signals[name].aurc
        label = f"{signal_name(name)}\nAURC {area.value:.3f}"
        axis.plot(curve.coverage, curve.risk, label=label, **style._asdict())
        top = max(top, float(curve.risk[curve.coverage >= _NOISE].max()))
    best = risk_coverage(right.double(), right)
    label = f"oracle\nAURC {best.area:.3f}"
    axis.plot(best.coverage, best.risk, color=INK, linewidth=0.8, label=label)
    axis.axhline(error, color=GREY, linestyle=":", linewidth=1, label=f"random\nAURC {error:.3f}")
    caption(
        axis,
        f"Errors among the surest queries; ranked by {ranking_name(ranking)}",
        x="share of queries answered, the surest first",
        y="share of wrong top hits",
    )
    axis.set(xlim=(0, 1), ylim=(0, 1.1 * top or 1))
    side_key(figure)
    return figure
