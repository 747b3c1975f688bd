"""What the numbers say, in sentences for somebody who will read nothing else."""

from surefind.metrics.bootstrap import Estimate
from surefind.reports.html.best import Winner, best_signal, main_ranking, ood_auroc
from surefind.reports.html.numbers import decimal, interval, percent
from surefind.reports.result import EvalResult, Signal

TELLING = 0.6  # AUROC of black bars from which on they must be spoken of
NO_VARIANCE = "This model has no learned uncertainty."


def sentences(result: EvalResult) -> list[str]:
    """The first two are for everybody; the others compare signals."""
    said = (_right(result), _surest(result), _wrong(result), _foreign(result))
    return [sentence for sentence in said if sentence]


def _right(result: EvalResult) -> str:
    recall = main_ranking(result).recall.get("1")
    if recall is None:
        return ""
    return (
        f"The top hit is right for {percent(recall.value)} % of "
        f"{result.about.queries:,} queries {interval(recall, percent)}."
    )


def _surest(result: EvalResult) -> str:
    ranking = main_ranking(result)
    shares = next((signal.risk_at for signal in ranking.signals.values()), {})
    if not shares or "1" not in ranking.recall:
        return ""
    share = min(shares, key=float)

    def risk(signal: Signal) -> Estimate | None:
        return signal.risk_at.get(share)

    best = best_signal(ranking.signals, risk, lowest=True)
    if best is None:
        return ""
    return (
        f"Answering only the surest {100 * float(share):g} % of them, "
        f"{percent(best.estimate.value)} % of the answers are wrong instead of "
        f"{percent(1 - ranking.recall['1'].value)} % (sure by: {best.name})."
    )


def _wrong(result: EvalResult) -> str:
    signals = main_ranking(result).signals
    learned = best_signal(signals, lambda signal: signal.auroc, learned=True)
    free = best_signal(signals, lambda signal: signal.auroc, learned=False)
    if learned and free:
        return (
            f"Learned uncertainty tells wrong top hits from right ones with an AUROC of "
            f"{decimal(learned.estimate.value)} ({learned.name}); without any training "
            f"{decimal(free.estimate.value)} is reached ({free.name}). {_compare(learned, free)}"
        )
    if free:
        return (
            f"{NO_VARIANCE} The best signal that needs none tells wrong top hits from right ones "
            f"with an AUROC of {decimal(free.estimate.value)} ({free.name})."
        )
    return ""


def _compare(learned: Winner, free: Winner) -> str:
    if learned.estimate.low > free.estimate.high:
        return "Learning it pays: the intervals do not overlap."
    if learned.estimate.high < free.estimate.low:
        return "Learning it does not pay here: the training-free signal is clearly better."
    return "The intervals overlap, so neither is clearly better."


def _foreign(result: EvalResult) -> str:
    best, about = best_signal(main_ranking(result).signals, ood_auroc), result.about
    if best is None:
        return ""
    bars = about.bars_auroc or 0.5
    caution = f" Beware: their black bars alone give {decimal(bars)}." if bars > TELLING else ""
    return (
        f"Queries that do not belong here ({about.foreign_queries:,} of {about.foreign}) are told "
        f"from own ones with an AUROC of {decimal(best.estimate.value)} ({best.name}).{caution}"
    )
