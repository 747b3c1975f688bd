"""The precision guarantee against plain loops, known populations and closed cases."""

from math import log

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, t

from surefind.confidence.guarantee import (
    GROWTH,
    STARTS,
    design_effect,
    effective_size,
    guarantee_precision,
    steady_design_effect,
    tail_probability,
)

POPULATION = 400_000


def draw(rng, classes, size, *, effect):
    """Queries whose confidence knows nothing of how hard their class is."""
    groups = np.repeat(np.arange(classes), size)
    logit = rng.normal(0.5, 2, classes * size)
    wrong_by = rng.normal(0, effect, classes)[groups]
    right = rng.random(len(groups)) < expit(logit + wrong_by)
    return expit(logit), right, groups


def precision_from(*, effect):
    """Precision of the population at and above a threshold."""
    confidence, right, _ = draw(np.random.default_rng(0), POPULATION // 4, 4, effect=effect)
    order = np.argsort(-confidence)
    precision = np.cumsum(right[order]) / np.arange(1, POPULATION + 1)
    ordered = -confidence[order]
    return lambda threshold: precision[max(np.searchsorted(ordered, -threshold), 500)]


def share_kept(*, classes, size, effect, alone=False, draws=250, precision=0.9, probability=0.8):
    """How often the population keeps the guarantee, and how often there is one.

    With `alone`, each query counts as a class of its own.
    """
    truth, rng = precision_from(effect=effect), np.random.default_rng(1)
    kept = made = 0
    for _ in range(draws):
        confidence, right, groups = draw(rng, classes, size, effect=effect)
        guarantee = guarantee_precision(
            confidence, right, np.arange(len(groups)) if alone else groups, precision=precision, probability=probability
        )
        made += guarantee.threshold is not None
        kept += guarantee.threshold is None or truth(guarantee.threshold) >= precision
    return kept, made


@pytest.mark.parametrize(("classes", "size", "effect"), [(600, 1, 0.0), (80, 15, 1.2)])
def test_the_guarantee_is_kept_as_often_as_stated(classes, size, effect):
    kept, made = share_kept(classes=classes, size=size, effect=effect)
    assert kept >= binom.ppf(0.01, 250, 0.8)
    assert made > 100  # a guarantee never made is always kept


def test_counting_queries_breaks_a_guarantee_when_errors_come_in_classes():
    setting = {"classes": 20, "size": 100, "effect": 1.5, "precision": 0.8}
    assert share_kept(**setting, alone=True)[0] < binom.ppf(0.01, 250, 0.8)
    assert share_kept(**setting)[0] >= binom.ppf(0.01, 250, 0.8)


def loop_guarantee(confidence, right, *, precision, probability):
    """The lowest threshold rejected, written as it is described."""
    ordered = sorted(confidence, reverse=True)
    counts, wanted = {len(ordered)}, 1.0
    while wanted < len(ordered):
        tied = ordered[int(wanted) - 1]
        counts.add(sum(value >= tied for value in ordered))
        wanted *= GROWTH
    part = (1 - probability) / STARTS
    counts = sorted(counts)
    tested = [n for n in counts if precision**n <= part] or counts[-1:]
    starts = [i * len(tested) // STARTS for i in range(STARTS)]
    alpha, threshold = 0.0, None
    for i, n in enumerate(tested):
        alpha += part * starts.count(i)
        wrong = sum(not r for c, r in zip(confidence, right, strict=True) if c >= ordered[n - 1])
        if binom.cdf(wrong, n, 1 - precision) <= alpha:
            threshold = ordered[n - 1]
        else:
            alpha = 0.0
    return threshold


@pytest.mark.parametrize("decimals", [1, 2, 8])
@pytest.mark.parametrize("precision", [0.6, 0.8, 0.9, 0.95])
def test_the_fallback_test_agrees_with_a_plain_loop(decimals, precision):
    rng = np.random.default_rng(decimals)
    found = set()
    for queries in (20, 60, 300, 1000):
        confidence = rng.beta(8, 1, queries).round(decimals)
        right = rng.random(queries) < confidence
        wanted = loop_guarantee(confidence, right, precision=precision, probability=0.9)
        guarantee = guarantee_precision(confidence, right, np.arange(queries), precision=precision)
        assert guarantee.threshold == wanted
        found.add(wanted is None)
    assert False in found


@pytest.mark.parametrize("precision", [0.5, 0.9, 0.99])
def test_queries_all_right_and_tied_allow_a_guarantee_exactly_from_the_closed_count(precision):
    fewest = int(np.ceil(log(0.1) / log(precision)))
    for queries, guaranteed in ((fewest - 1, False), (fewest, True)):
        guarantee = guarantee_precision(
            np.full(queries, 0.7), np.ones(queries, bool), np.arange(queries), precision=precision
        )
        assert (guarantee.threshold is not None) == guaranteed
        assert guarantee.coverage == float(guaranteed)


def test_the_threshold_selects_what_the_guarantee_says():
    confidence, right, groups = draw(np.random.default_rng(3), 60, 20, effect=0.5)
    guarantee = guarantee_precision(confidence, right, groups, precision=0.9)
    chosen = confidence >= guarantee.threshold
    assert guarantee.selected == chosen.sum() and guarantee.right == right[chosen].sum()
    assert guarantee.coverage == chosen.mean()
    assert (guarantee.queries, guarantee.groups) == (1200, 60)
    assert guarantee.design_effect > 1


def test_what_cannot_be_guaranteed_says_what_could():
    confidence, right, groups = draw(np.random.default_rng(4), 200, 1, effect=0.0)
    guarantee = guarantee_precision(confidence, right, groups, precision=0.95)
    assert guarantee.threshold is None and guarantee.selected == 0 and guarantee.coverage == 0
    assert 0.5 <= guarantee.best < 0.95
    lower = guarantee_precision(confidence, right, groups, precision=guarantee.best)
    assert lower.threshold is not None


def test_no_higher_precision_is_offered_than_one_that_cannot_be_guaranteed():
    rng = np.random.default_rng(0)
    confidence = rng.random(3000)
    queries = confidence, rng.random(3000) < confidence, rng.integers(0, 100, 3000)
    assert guarantee_precision(*queries, precision=0.975).threshold is not None
    lower = guarantee_precision(*queries, precision=0.97)  # walks other steps, and stumbles
    assert lower.threshold is None and lower.best < 0.97


def test_about_as_many_queries_as_it_says_would_do():
    rng, needed, guaranteed = np.random.default_rng(5), [], []
    while len(needed) < 60:
        few = draw(rng, 200, 1, effect=0.0)
        enough = guarantee_precision(*few, precision=0.95).queries_needed
        if enough is not None:
            needed.append(enough)
            more = draw(rng, min(enough, 20_000), 1, effect=0.0)
            guaranteed.append(guarantee_precision(*more, precision=0.95).threshold)
    assert min(needed) > 200
    assert 0.3 < np.mean([threshold is not None for threshold in guaranteed]) < 0.9


def test_when_everything_is_wrong_no_number_of_queries_is_named():
    confidence = np.linspace(0, 1, 50)
    guarantee = guarantee_precision(confidence, np.zeros(50, bool), np.arange(50), precision=0.9)
    assert (guarantee.threshold, guarantee.queries_needed, guarantee.best) == (None, None, 0.0)


def test_a_single_class_guarantees_nothing_about_others():
    confidence, right = np.linspace(0, 1, 500), np.ones(500, bool)
    assert guarantee_precision(confidence, right, np.zeros(500), precision=0.8).threshold is None
    alone = guarantee_precision(confidence, right, np.arange(500), precision=0.8)
    assert alone.threshold is not None


def kept_by_the_next(count, *, horizon, draws=250, **drawn):
    """How often the next so many queries keep a guarantee of 0.9, and how often there is one."""
    rng, kept, made = np.random.default_rng(2), 0, 0
    size = drawn["size"]
    for _ in range(draws):
        queries = draw(rng, 6000 // size, size, effect=drawn["effect"])
        guarantee = guarantee_precision(*queries, precision=0.9, horizon=horizon)
        confidence, right, _ = draw(rng, count // size, size, effect=drawn["effect"])
        chosen = confidence >= (np.inf if guarantee.threshold is None else guarantee.threshold)
        made += guarantee.threshold is not None
        kept += not chosen.any() or right[chosen].mean() >= 0.9
    return kept, made


@pytest.mark.parametrize("drawn", [{"size": 1, "effect": 0.0}, {"size": 10, "effect": 0.8}])
def test_the_next_queries_keep_the_guarantee_that_is_made_for_them(drawn):
    kept, made = kept_by_the_next(1000, horizon=1000, **drawn)
    assert kept >= binom.ppf(0.01, 250, 0.9)
    assert made > 150
    assert kept_by_the_next(1000, horizon=None, **drawn)[0] < binom.ppf(0.01, 250, 0.9)


def threshold_of(queries, **asked):
    guarantee = guarantee_precision(*queries, **asked)
    return np.inf if guarantee.threshold is None else guarantee.threshold


def test_a_guarantee_for_queries_to_come_is_never_easier_than_for_the_long_run():
    rng, harder = np.random.default_rng(9), 0
    for _ in range(60):
        total, classes = int(rng.integers(20, 3000)), int(rng.integers(5, 200))
        logit = rng.normal(rng.uniform(0, 2), 2, total)
        queries = expit(logit), rng.random(total) < expit(logit), rng.integers(0, classes, total)
        precision = float(rng.choice([0.6, 0.8, 0.9, 0.95]))
        long_run = threshold_of(queries, precision=precision)
        soon = [threshold_of(queries, precision=precision, horizon=10**n) for n in (9, 3, 2)]
        assert soon[0] == long_run <= min(soon)
        harder += soon[-1] > long_run
    assert harder > 20


def test_where_the_long_run_cannot_be_guaranteed_no_queries_to_come_are():
    rng = np.random.default_rng(0)
    confidence = rng.random(3000)
    queries = confidence, rng.random(3000) < confidence, rng.integers(0, 100, 3000)
    for horizon in (None, 30_000, 100_000):  # a walk that begins elsewhere does not stumble
        assert threshold_of(queries, precision=0.97, horizon=horizon) == np.inf


# few errors and how they come


def test_the_tail_is_that_of_the_binomial():
    wrong, n = np.meshgrid(np.arange(6), [5, 9, 40])
    for share in (0.01, 0.1, 0.5):
        ours = tail_probability(wrong, n, share=share)
        assert ours == pytest.approx(binom.cdf(wrong, n, share), rel=1e-10)
    assert tail_probability(0, 0, share=0.1) == 1
    low, middle, high = tail_probability([2, 2.5, 3], [20, 20, 20], share=0.2)
    assert low < middle < high  # counts that are not whole


def loop_design_effect(wrong, groups):
    n, risk = len(wrong), np.mean(wrong)
    names = set(groups.tolist())
    if len(names) < 2 or risk in (0, 1):
        return 1.0
    z = [sum(wrong[groups == name]) - risk * sum(groups == name) for name in names]
    variance = len(z) / (len(z) - 1) * sum(value**2 for value in z) / n**2
    return max(1.0, variance / (risk * (1 - risk) / (n - 1)))


def test_the_design_effect_agrees_with_a_plain_loop_for_every_number_selected():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 7, 80)
    wrong = rng.random(80) < np.array([0, 0.1, 0.2, 0.3, 0.5, 0.7, 1])[groups]
    counts = np.arange(1, 81)
    ours = design_effect(wrong, groups, selected=counts)
    wanted = [loop_design_effect(wrong[:n], groups[:n]) for n in counts]
    assert ours == pytest.approx(wanted) and ours[-1] > 2


def test_errors_of_whole_classes_have_the_design_effect_of_their_size():
    groups = np.repeat(np.arange(40), 10)
    wrong = groups < 8
    deff = design_effect(wrong, groups, selected=np.array([400]))[0]
    assert deff == pytest.approx(10 * 40 / 39 * 399 / 400)


def test_without_errors_the_design_effect_is_what_all_rows_lead_to_expect():
    groups = np.tile(np.arange(20), 10)  # the first 20 rows are of 20 classes, the first 40 twice
    wrong = (groups < 4) & (np.arange(200) >= 60)
    all_rows = design_effect(wrong, groups, selected=np.array([200]))[0]
    found = steady_design_effect(wrong, groups, selected=np.array([20, 40, 200]))
    assert found == pytest.approx([1, 1 + (all_rows - 1) / 9, all_rows])
    assert all_rows > 2


def test_few_classes_are_worth_fewer_queries():
    n, one = np.array([100, 100, 100, 100]), np.ones(4)
    size = effective_size(n, np.array([100, 30, 3, 1]), deff=one, level=0.05)
    assert size[0] == pytest.approx(100) and size[3] == 0
    assert 100 > size[1] > size[2] > 0
    assert size[2] == pytest.approx(100 * (t.ppf(0.95, 99) / t.ppf(0.95, 2)) ** 2)
    assert effective_size(n, n, deff=4 * one, level=0.05) == pytest.approx(25)
