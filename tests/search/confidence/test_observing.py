"""Labelled queries asked of an index: what is seen and what is right, as plain loops have it."""

import numpy as np
import pytest
from clusters import SPACE, cluster_engine, clusters, gaussians
from galleries import random_embeddings
from looking import look
from stores import made

import surefind as sf
from surefind.engines.engine import Rows
from surefind.search.calibrating import embedded_queries, own_queries
from surefind.search.confidence import observing
from surefind.search.confidence.observing import Doubt, LabelledQueries, observe
from surefind.search.evidence.seen import NEIGHBOURS, Seen
from surefind.search.neighbourhoods import Neighbourhoods

GALLERY, LABELS = clusters(classes=12, per_class=6, seed=1)


@pytest.fixture
def engine(tmp_path):
    return cluster_engine(tmp_path / "store", GALLERY, LABELS)


def ask(engine, queries: LabelledQueries, **options):
    around = Neighbourhoods.of(engine, ranking="mean")
    doubt = Doubt(None, np.zeros((len(queries.facts), 2)))
    return observe(engine, queries, around, ranking="mean", doubt=doubt, **options)


def assert_seen(found: Seen, wanted: Seen) -> None:
    """But for the digits that float32 loses among neighbours so far from each other."""
    for name in Seen._fields:
        its, true = getattr(found, name), getattr(wanted, name)
        assert its == pytest.approx(true, rel=1e-5, abs=1e-6 * np.abs(true).max()), name


def test_a_row_of_the_index_is_asked_as_if_it_were_not_there(engine):
    found = ask(engine, own_queries(engine))
    looked = look(GALLERY, GALLERY, itself=range(len(LABELS)))
    assert_seen(found.seen, looked.seen)
    wanted = [[LABELS[x] == LABELS[row] for x in own] for row, own in enumerate(looked.hits)]
    assert found.match.tolist() == wanted
    assert found.gallery == 72
    assert found.belongs.all()


def test_a_query_from_elsewhere_sees_all_rows(engine):
    query, labels = clusters(classes=12, per_class=6, seed=2)
    found = ask(engine, embedded_queries(query, labels))
    looked = look(GALLERY, query)
    assert_seen(found.seen, looked.seen)
    wanted = [[LABELS[x] == labels[row] for x in own] for row, own in enumerate(looked.hits)]
    assert found.match.tolist() == wanted


def test_rows_of_the_index_and_others_may_be_asked_together(engine):
    own, query = own_queries(engine), clusters(classes=12, per_class=6, seed=2)[0]
    mixed = LabelledQueries(
        sf.Gaussians.cat([own.embeddings[:3], query[:2]]),
        [{"label": "class 0"}] * 5,
        [*own.itself[:3], "", ""],
        np.zeros(5, np.int64),
    )
    found = ask(engine, mixed).seen
    assert_seen(found.at(np.arange(3)), look(GALLERY, GALLERY[:3], itself=range(3)).seen)
    assert_seen(found.at(np.arange(3, 5)), look(GALLERY, query[:2]).seen)


def test_many_queries_are_asked_a_few_at_a_time(engine, monkeypatch):
    whole = ask(engine, own_queries(engine))
    monkeypatch.setattr(observing, "QUERIES_AT_ONCE", 25)
    told: list[int] = []
    parts = ask(engine, own_queries(engine), progress=told.append)
    assert told == [25, 50, 72]
    assert_seen(parts.seen, whole.seen)
    assert np.array_equal(parts.match, whole.match)


def test_a_query_without_a_match_does_not_belong(engine):
    labels = [f"class {n % 14}" for n in range(70)]  # 12 and 13 are not in the gallery
    found = ask(engine, embedded_queries(random_embeddings(70, SPACE.dim, 3), labels))
    assert found.belongs.tolist() == [label not in ("class 12", "class 13") for label in labels]
    assert not found.match[~found.belongs].any()


def test_a_row_that_has_many_copies_is_still_not_its_own_hit(tmp_path):
    engine = made(tmp_path / "store", space=SPACE)
    mean = GALLERY.mean.numpy().copy()
    mean[:30] = mean[0]
    facts = tuple({"label": label} for label in LABELS)
    names = tuple(f"row-{n}" for n in range(72))
    engine.add(Rows(names, gaussians(mean), ("",) * 72, facts))
    found = ask(engine, own_queries(engine))
    assert found.match.shape == (72, NEIGHBOURS)
    assert (found.seen.distance[:30] == 0).all()
    assert (found.seen.around[:30] == 0).all()  # 28 others are as near


@pytest.mark.parametrize("count", [1, 21])
def test_a_gallery_that_is_too_small_is_refused(tmp_path, count):
    engine = cluster_engine(tmp_path / "few", GALLERY[:count], LABELS[:count])
    with pytest.raises(sf.InvalidArgument, match=f"at least 22 images, got {count}"):
        ask(engine, embedded_queries(GALLERY, LABELS))


def test_the_smallest_gallery_is_enough_for_its_own_rows(tmp_path):
    rows = np.r_[0:22].tolist()
    engine = cluster_engine(tmp_path / "few", GALLERY[rows], LABELS[:22])
    queries = LabelledQueries(
        GALLERY[rows],
        [{"label": label} for label in LABELS[:22]],
        [f"row-{n}" for n in rows],
        np.zeros(22, np.int64),
    )
    found = ask(engine, queries)
    assert_seen(found.seen, look(GALLERY[rows], GALLERY[rows], itself=range(22)).seen)
