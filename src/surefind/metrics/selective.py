"""Selective prediction: risk when the least confident queries are not answered."""

from collections.abc import Sequence
from typing import NamedTuple, overload

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from surefind.metrics._validation import as_flags, as_numbers, as_result, as_rows, order, steps
from surefind.validation import check_number


class RiskCoverage(NamedTuple):
    """The error rate (risk) among the surest share (coverage) of queries.

    Attributes:
        coverage: 1/Q, 2/Q, ... 1, (Q,).
        risk: Error rate of that many answers, (Q,).
        area: AURC, the mean of risk; lower is better.
        excess: E-AURC, the area above that of the best order.
    """

    coverage: Tensor
    risk: Tensor
    area: float
    excess: float

    def risk_at(self, coverage: float) -> float:
        """Error rate when at least this share is answered.

        Args:
            coverage: The share, above 0 and at most 1.

        Returns:
            The error rate.
        """
        _check_coverage(coverage)
        return float(self.risk[torch.searchsorted(self.coverage, coverage)])


def risk_coverage(confidence: ArrayLike, correct: ArrayLike) -> RiskCoverage:
    """Error rate when only the most confident share of queries is answered.

    Errors are spread evenly within a tie, which is the mean over all orders of the tied.

    Args:
        confidence: Higher for queries that are answered first, (Q,).
        correct: Whether the answer is correct, (Q,) bool.

    >>> curve = risk_coverage(torch.tensor([0.9, 0.8, 0.3]), torch.tensor([True, True, False]))
    >>> round(curve.area, 4)
    0.1111
    >>> curve.risk_at(0.5)
    0.0
    """
    values = as_numbers("confidence", confidence)
    wrong = ~as_flags("correct", correct, len(values))
    surest = order(-values)
    place = surest.place()
    tied = torch.bincount(place)
    share = torch.bincount(place, weights=wrong.double()) / tied
    answered = torch.arange(1, len(values) + 1, dtype=torch.float64)
    risk = share.repeat_interleave(tied).cumsum(0) / answered
    best = wrong.double().sort().values.cumsum(0) / answered
    area = float(risk.mean())
    excess = max(0.0, area - float(best.mean()))
    return RiskCoverage(answered / len(values), risk, area, excess)


@overload
def aurc(uncertainty: ArrayLike, wrong: ArrayLike, *, weights: None = None) -> float: ...
@overload
def aurc(uncertainty: ArrayLike, wrong: ArrayLike, *, weights: ArrayLike) -> Tensor: ...
def aurc(uncertainty: ArrayLike, wrong: ArrayLike, *, weights: ArrayLike | None = None) -> float | Tensor:
    r"""Area under the risk-coverage curve, also of many resamples at once.

    Of n answers, an error at place s adds 1/t to the risk at every coverage t/n, t >= s. With
    H(t) = 1 + 1/2 + ... + 1/t, and within a tie the mean over its places, that is

        AURC = 1/n sum_g e_g [H(n) - (S(C_g) - S(C_(g-1))) / m_g],   S(t) = t H(t) - t

    e_g, m_g: errors and queries in the g-th tie; C_g: queries up to and including it.

    Args:
        uncertainty: Higher for queries that are answered last, (Q,).
        wrong: Whether the answer is wrong, (Q,) bool.
        weights: Resample counts, (B, Q).

    Returns:
        The area; with `weights` one per resample, (B,).

    >>> round(aurc(torch.tensor([0.1, 0.2, 0.7]), torch.tensor([False, False, True])), 4)
    0.1111
    """
    return as_result(_area(_answers(uncertainty, wrong, weights)), weights)


class RiskProfile(NamedTuple):
    """Risk and coverage of many resamples, one value for each, (B,).

    Attributes:
        area: AURC.
        excess: AURC above that of the best order.
        risks: Error rates, one tensor for each coverage.
    """

    area: Tensor
    excess: Tensor
    risks: tuple[Tensor, ...]


def risk_profile(
    uncertainty: ArrayLike, wrong: ArrayLike, coverages: Sequence[float], *, weights: ArrayLike
) -> RiskProfile:
    r"""AURC, excess AURC and risk at each coverage, for many resamples at once.

        excess = AURC - 1/n [e - (n - e) (H(n) - H(n - e))]
        risk   = [E_g - e_g / m_g (C_g - t)] / t,   t the fewest answers with t/n >= coverage

    g: the tie that holds place t; e: all errors; other letters as in `aurc`.

    `uncertainty`, `wrong` and `weights` are as in `aurc`.

    Args:
        coverages: Shares of the queries to answer.
    """
    for coverage in coverages:
        _check_coverage(coverage)
    answers = _answers(uncertainty, wrong, weights)
    area, n, e = _area(answers), answers.queries, answers.errors
    harmonic, right = _harmonic(int(n.max())), n - e
    best = (e - right * (harmonic[n.long()] - harmonic[right.long()])) / n
    risks = tuple(_risk(answers, coverage) for coverage in coverages)
    return RiskProfile(area, (area - best).clamp(min=0), risks)


class _Answers(NamedTuple):
    """Running totals from the surest tie to the least sure."""

    upto: Tensor  # (B, G) queries up to and including each tie, C_g
    wrong: Tensor  # (B, G) errors among them, E_g
    share: Tensor  # (B, G) or (1, G) of errors within each tie, e_g / m_g

    @property
    def queries(self) -> Tensor:
        return self.upto[:, -1].double()

    @property
    def errors(self) -> Tensor:
        return self.wrong[:, -1].double()


def _answers(uncertainty: ArrayLike, wrong: ArrayLike, weights: ArrayLike | None) -> _Answers:
    values = as_numbers("uncertainty", uncertainty)
    flags = as_flags("wrong", wrong, len(values))
    surest = order(values)
    arranged = surest.arrange(as_rows(weights, len(values)))
    upto = surest.totals(arranged)
    flags = flags[surest.queries].to(upto.dtype)
    errors = surest.totals(arranged.mul_(flags))
    if surest.last is None:  # each tie is one query, and all its copies are wrong or none
        return _Answers(upto, errors, flags[None])
    return _Answers(upto, errors, steps(errors).div_(steps(upto)).nan_to_num_(0.0))


def _area(answers: _Answers) -> Tensor:
    n, e = answers.queries, answers.errors
    harmonic = _harmonic(int(n.max()))
    count = torch.arange(len(harmonic), dtype=torch.float64)
    table = count * harmonic - count  # S
    places = table.index_select(0, answers.upto.int().flatten()).view_as(answers.upto)
    # sum_g r_g (S_g - S_(g-1)) = sum_g S_g (r_g - r_(g+1)) with r = e / m
    fall = answers.share.to(torch.float64, copy=True)
    fall[:, :-1] -= answers.share[:, 1:]
    lost = places.mul_(fall).sum(1)
    return (e * harmonic[n.long()] - lost) / n


def _risk(answers: _Answers, coverage: float) -> Tensor:
    wanted = coverage * answers.queries[:, None]
    t = (wanted - 1e-9 * wanted).ceil()  # 0.07 * 100 is a little more than 7
    holds = torch.searchsorted(answers.upto, t.to(answers.upto.dtype))
    holds.clamp_(max=answers.upto.shape[1] - 1)
    upto, errors, share = (part.expand_as(answers.upto).gather(1, holds).double() for part in answers)
    return ((errors - share * (upto - t)) / t).squeeze(1)


def _harmonic(largest: int) -> Tensor:
    """H(0), H(1), ... H(largest)."""
    table = torch.zeros(largest + 1, dtype=torch.float64)
    table[1:] = torch.arange(1, largest + 1, dtype=torch.float64).reciprocal().cumsum(0)
    return table


def _check_coverage(coverage: object) -> None:
    check_number("coverage", coverage, "a number above 0 and at most 1", lambda x: 0 < x <= 1)
