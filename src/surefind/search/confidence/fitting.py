"""From labelled queries to a calibration."""

from dataclasses import dataclass

import numpy as np

from surefind.search.confidence.calibration import FOREIGN_RATE, Calibration, Origin
from surefind.search.confidence.conformal import novelty_of, novelty_values, showing_rule
from surefind.search.confidence.evidence import COLUMNS, Numbers, Seen, evidence
from surefind.search.confidence.guarantee import promise_precision
from surefind.search.confidence.match_model import fit_confidence
from surefind.search.confidence.observed import Observed, check_enough
from surefind.search.confidence.quality import curve_of, quality_of
from surefind.search.confidence.shift import quantiles_of
from surefind.validation import check_number, check_share, check_whole

_STILL = 1e-6  # what varies less was not learned


@dataclass(frozen=True)
class Wishes:
    """What is asked of a calibration."""

    precision: float = 0.95  # of what is called a match
    probability: float = 0.9  # that this is kept
    ahead: int | None = None  # by the next so many queries; None: in the long run
    miss: float = 0.1  # how often no match may be among the hits that are shown
    foreign_rate: float = FOREIGN_RATE

    def __post_init__(self) -> None:
        """Before any work that is done for them."""
        for name in ("precision", "probability", "miss"):
            check_share(name, getattr(self, name))
        rate, expected = self.foreign_rate, "a share from 0 to below 1"
        check_number("foreign_rate", rate, expected, lambda share: 0 <= share < 1)
        if self.ahead is not None:
            check_whole("ahead", self.ahead)


def fit_calibration(observed: Observed, origin: Origin, wishes: Wishes) -> Calibration:
    """Confidence, novelty, promise and size of the answer; all judged across classes."""
    check_enough(observed)
    names = columns_of(observed.seen)
    fitted = fit_confidence(
        observed.seen,
        observed.match,
        observed.fold,
        names=names,
        unseen=observed.unseen,
    )
    first = fitted.confidence[:, 0]
    curve = curve_of(fitted, observed)
    values = novelty_values(observed.seen)
    return Calibration(
        origin=origin,
        model=fitted.model,
        novelty=novelty_of(values[observed.belongs]),
        promise=promise_precision(
            first,
            observed.match[:, 0],
            observed.groups,
            precision=wishes.precision,
            probability=wishes.probability,
            ahead=wishes.ahead,
        ),
        showing=showing_rule(fitted.confidence, observed.match, observed.groups, miss=wishes.miss),
        curve=curve,
        quality=quality_of(curve, observed.seen),
        usual=quantiles_of(usual_columns(observed.seen, names, first)),
        foreign_rate=wishes.foreign_rate,
    )


def columns_of(seen: Seen) -> tuple[str, ...]:
    """The columns that can say anything: those of a variance only where it was learned."""
    there = {"distances", "density", "overlap"}
    if np.ptp(np.log(seen.query_var)) > _STILL:
        there.add("variance")
    if np.ptp(seen.doubt) > _STILL:
        there.add("doubt")
    return tuple(name for name, column in COLUMNS.items() if column.source in there)


def usual_columns(seen: Seen, names: tuple[str, ...], confidence: Numbers) -> dict[str, Numbers]:
    """What was seen of first hits, to compare later queries with."""
    first = evidence(seen, names)[:, 0]
    return dict(zip(names, first.T, strict=True)) | {"confidence": confidence}
