"""Intervals of many queries from a sample of them, against resampling all."""

import pytest
import torch

from surefind import metrics
from surefind.metrics import bootstrap_all
from surefind.reports import intervals
from surefind.reports.found import Found
from surefind.reports.intervals import estimate_all


def made_up(queries: int, foreign: int = 0) -> Found:
    generator = torch.Generator().manual_seed(0)
    doubt = torch.rand(queries, generator=generator).double()
    hits = torch.rand(queries, 5, generator=generator) > doubt[:, None]
    strange = {"doubt": 0.4 + torch.rand(foreign, generator=generator).double()}
    return Found(hits, torch.full((queries,), 9), {"doubt": doubt}, strange if foreign else {}, {})


def statistics(found: Found) -> intervals.Statistics:
    signal, wrong = found.signals["doubt"], ~found.hits[:, 0]
    return {
        ("doubt", "auroc"): lambda weights: metrics.auroc(signal, wrong, weights=weights),
        ("doubt", "aurc"): lambda weights: metrics.aurc(signal, wrong, weights=weights),
    }


def estimates(found: Found) -> intervals.Estimates:
    return estimate_all(statistics, found, count=lambda part: len(part.hits), seed=0)


def test_few_queries_are_all_resampled():
    found = made_up(300)
    assert estimates(found) == bootstrap_all(statistics(found), 300, resamples=1000, seed=0)


def test_of_many_queries_values_are_exact_and_widths_about_right(monkeypatch):
    found = made_up(3000)
    whole = bootstrap_all(statistics(found), 3000, resamples=1000, seed=0)
    monkeypatch.setattr(intervals, "MANY", 800)
    monkeypatch.setattr(intervals, "SOME", 800)
    sampled = estimates(found)
    for name, wanted in whole.items():
        assert sampled[name].value == wanted.value
        assert sampled[name].high - sampled[name].low == pytest.approx(
            wanted.high - wanted.low, rel=0.3
        )
        assert sampled[name].low < wanted.value < sampled[name].high


def test_an_event_too_rare_for_the_sample_is_estimated_from_all(monkeypatch):
    monkeypatch.setattr(intervals, "MANY", 100)
    monkeypatch.setattr(intervals, "SOME", 100)
    found = made_up(1000)
    found.hits[:, 0] = True
    found.hits[found.signals["doubt"].argmax(), 0] = False  # a single wrong query

    def if_defined(part: Found) -> intervals.Statistics:
        return statistics(part) if not part.hits[:, 0].all() else {}

    found_all = estimate_all(if_defined, found, count=lambda part: len(part.hits), seed=0)
    assert found_all["doubt", "auroc"].value == 1.0


def test_a_sample_takes_the_same_share_of_own_and_foreign_queries():
    part = made_up(1000, foreign=400).sample(0.25, seed=0)
    assert (len(part.hits), len(part.foreign["doubt"]), part.queries) == (250, 100, 350)
