"""Intervals of many queries from a sample of them, against resampling all."""

import pytest
import torch

from surefind import metrics
from surefind.metrics import bootstrap_all
from surefind.reports import rankings
from surefind.reports.rankings import Scored, estimate_all


def made_up(queries: int, foreign: int = 0, *, each: int = 1) -> Scored:
    """Classes of `each` queries, which are uncertain and right together."""
    generator = torch.Generator().manual_seed(0)
    classes = torch.arange(queries) // each
    uncertainty = torch.rand(queries, generator=generator).double()[classes]
    uncertainty += 0.01 * torch.rand(queries, generator=generator)
    hits = torch.rand(queries, 5, generator=generator)[classes] > uncertainty[:, None]
    foreign_signal = 0.4 + torch.rand(foreign, generator=generator).double()
    return Scored(
        torch.cat([hits, torch.zeros(foreign, 5, dtype=torch.bool)]),
        torch.full((queries + foreign,), 9),
        torch.cat([classes, queries + torch.arange(foreign) // each]),
        torch.arange(queries + foreign) >= queries,
        {"signal": torch.cat([uncertainty, foreign_signal])},
        {},
    )


def statistics(found: Scored) -> rankings.Statistics:
    signal, wrong = found.signals["signal"], ~found.hits[:, 0]
    return {
        ("signal", "auroc"): lambda weights: metrics.auroc(signal, wrong, weights=weights),
        ("signal", "aurc"): lambda weights: metrics.aurc(signal, wrong, weights=weights),
    }


def estimates(found: Scored) -> rankings.Estimates:
    return estimate_all(statistics, found, seed=0)


@pytest.mark.parametrize("each", [1, 10])
def test_all_classes_of_a_few_queries_are_resampled(each: int):
    found = made_up(300, each=each)
    assert estimates(found) == bootstrap_all(statistics(found), 300, groups=found.groups, resamples=1000, seed=0)


@pytest.mark.parametrize("each", [1, 6])
def test_of_many_queries_values_are_exact_and_widths_about_right(monkeypatch, each: int):
    found = made_up(3000, each=each)
    whole = bootstrap_all(statistics(found), 3000, groups=found.groups, resamples=1000, seed=0)
    monkeypatch.setattr(rankings, "MANY", 800)
    monkeypatch.setattr(rankings, "SOME", 800)
    sampled = estimates(found)
    for name, wanted in whole.items():
        assert sampled[name].value == wanted.value
        assert sampled[name].high - sampled[name].low == pytest.approx(wanted.high - wanted.low, rel=0.3)
        assert sampled[name].low < wanted.value < sampled[name].high


def test_an_event_too_rare_for_the_sample_is_estimated_from_all(monkeypatch):
    monkeypatch.setattr(rankings, "MANY", 100)
    monkeypatch.setattr(rankings, "SOME", 100)
    found = made_up(1000)
    found.hits[:, 0] = True
    found.hits[found.signals["signal"].argmax(), 0] = False  # a single wrong query

    def if_defined(part: Scored) -> rankings.Statistics:
        return statistics(part) if not part.hits[:, 0].all() else {}

    found_all = estimate_all(if_defined, found, seed=0)
    assert found_all["signal", "auroc"].value == 1.0


def test_a_sample_takes_classes_whole():
    whole = made_up(1000, foreign=400, each=10)
    part = whole.sample(0.25, seed=0)
    for foreign, count in ((False, 25), (True, 10)):
        groups = part.groups[part.foreign == foreign]
        assert groups.unique(return_counts=True)[1].tolist() == [10] * count
    rows = torch.isin(whole.groups, part.groups)
    assert torch.equal(part.signals["signal"], whole.signals["signal"][rows])
