"""Which measurements stand in which table."""

from collections.abc import Mapping

from surefind.reports.html.numbers import percent, short
from surefind.reports.html.table import Column, Table, Value, fill
from surefind.reports.names import is_learned, ranking_name, signal_name
from surefind.reports.result import Ladder, Ranking, Signal

KNOWN = "rank correlation"


def retrieval_table(rankings: Mapping[str, Ranking]) -> Table:
    """How often the right pictures are found, by each order of the gallery."""
    rows = {ranking_name(name): _retrieval(ranking) for name, ranking in rankings.items()}
    titles = next(iter(rows.values()))
    return fill(
        "Retrieval for each order of the gallery, in %, with 95 % intervals",
        "ranked by",
        columns=[Column(title, percent, max) for title in titles],
        rows=rows,
    )


def signal_tables(ranking: Ranking) -> list[Table]:
    """Questions to every signal; those that the data cannot answer are left out."""
    signals = dict(sorted(ranking.signals.items(), key=lambda item: not is_learned(item[0])))
    rows = {signal_name(name): _signal(signal) for name, signal in signals.items()}
    groups = {signal_name(n): "learned" if is_learned(n) else "training-free" for n in signals}
    risks = dict.fromkeys(share for signal in signals.values() for share in signal.risk_at)
    questions = {
        "Which top hits are wrong? Every signal orders the queries from sure to unsure": [
            Column("AUROC", best=max),
            Column("AUPR", best=max),
            Column("AURC", best=min),
            Column("E-AURC", best=min),
            *(Column(_risk(share), percent, min) for share in risks),
            Column("Spearman", best=max),
            Column("Kendall", best=max),
        ],
        "How likely is the top hit right? Signals as cross-fitted probabilities": [
            Column(title, best=min) for title in ("ECE", "Brier", "NLL")
        ],
        "Does the query belong here at all? Own against foreign queries": [
            Column("OOD AUROC", best=max),
            Column("OOD AUPR", best=max),
            Column("FPR95, %", percent, min),
        ],
        "Does it rise with the corruption that each picture is known to have?": [
            Column(KNOWN, best=max)
        ],
    }
    tables = [
        fill(question, "signal", columns=columns, rows=rows, groups=groups)
        for question, columns in questions.items()
    ]
    return [table for table in tables if table.columns]


def ece_table(name: str, ranking: Ranking) -> Table | None:
    """The calibration error of the query variance by each definition; None without a variance."""
    if not ranking.ece:
        return None
    rows: dict[str, dict[str, Value]] = {
        definition: {f"ECE@{k}": value for k, value in by_k.items()}
        for definition, by_k in ranking.ece.items()
    }
    of_query = ranking.signals.get("query_var")
    if of_query and of_query.ece:
        rows.setdefault("probability", {"ECE@1": of_query.ece})
    return fill(
        f"Calibration error of the query variance, ranked by {ranking_name(name)}",
        "definition",
        columns=[Column(title) for title in dict.fromkeys(t for row in rows.values() for t in row)],
        rows=rows,
    )


def ladder_tables(ladder: Ladder) -> list[Table]:
    """Whether uncertainty rises with corruption, and every step of it."""
    signals = dict.fromkeys(name for rung in ladder.rungs for name in rung.signals)
    order = {
        kind: {signal_name(name): value for name, value in by_signal.items()}
        for kind, by_signal in ladder.spearman.items()
    }
    steps = {
        f"{rung.kind} {rung.level}": {
            "R@1, %": rung.recall,
            **{signal_name(name): value for name, value in rung.signals.items()},
        }
        for rung in ladder.rungs
    }
    return [
        fill(
            f"Rank correlation of uncertainty with the level of corruption, mean of "
            f"{ladder.queries:,} queries; 1 is always rising",
            "corruption",
            columns=[Column(signal_name(name)) for name in signals],
            rows=order,
        ),
        fill(
            "R@1 and the median of each uncertainty at every level",
            "corruption, level",
            columns=[
                Column("R@1, %", percent),
                *(Column(signal_name(name), short) for name in signals),
            ],
            rows=steps,
        ),
    ]


def _retrieval(ranking: Ranking) -> dict[str, Value]:
    return {
        **{f"R@{k}": value for k, value in ranking.recall.items()},
        **{f"mAP@{k}": value for k, value in ranking.mean_ap.items()},
        **{f"P@{k}": value for k, value in ranking.precision.items()},
        "MAP@R": ranking.map_at_r,
    }


def _signal(signal: Signal) -> dict[str, Value]:
    ood = signal.ood
    return {
        "AUROC": signal.auroc,
        "AUPR": signal.aupr,
        "AURC": signal.aurc,
        "E-AURC": signal.e_aurc,
        **{_risk(share): value for share, value in signal.risk_at.items()},
        "Spearman": signal.spearman,
        "Kendall": signal.kendall,
        KNOWN: signal.difficulty,
        "ECE": signal.ece,
        "Brier": signal.brier,
        "NLL": signal.nll,
        "OOD AUROC": ood.auroc if ood else None,
        "OOD AUPR": ood.aupr if ood else None,
        "FPR95, %": ood.fpr95 if ood else None,
    }


def _risk(share: str) -> str:
    return f"risk at {100 * float(share):g}\N{NO-BREAK SPACE}%"
