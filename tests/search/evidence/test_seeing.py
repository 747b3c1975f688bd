"""What is seen through an engine is what looking at everything shows."""

import numpy as np
import pytest
from galleries import FAMILIES, random_embeddings, random_rows
from looking import look
from stores import made

from surefind.engines.knn import nearest
from surefind.engines.space import Space
from surefind.search.evidence.columns import evidence
from surefind.search.evidence.seeing import see
from surefind.search.evidence.seen import NEIGHBOURS, Seen
from surefind.search.neighbourhoods import distances_around

DIM = 5


def seen_through_engine(place, rows, query, *, hits=NEIGHBOURS) -> Seen:
    space = Space(query.family, query.dim, "mean")
    engine = made(place, space=space)
    engine.add(rows)
    near = nearest(engine, query, NEIGHBOURS + 3, ranking="mean")
    keys, place = np.unique(near.keys[:, :hits], return_inverse=True)
    around = distances_around(engine, keys, ranking="mean").astype(np.float64)
    return see(
        space,
        query,
        near,
        around=around[place.reshape(-1, hits), :NEIGHBOURS],
        doubt=np.zeros((len(query), 2)),
        near_doubt=np.zeros(len(query)),
    )


def test_all_that_is_seen_is_what_looking_at_everything_shows(tmp_path):
    rows, query = random_rows(80, DIM, seed=1), random_embeddings(6, DIM, seed=2)
    found = seen_through_engine(tmp_path / "store", rows, query)
    wanted = look(rows.embeddings, query).seen
    for name in Seen._fields:
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-5, abs=1e-6), (
            name
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_fewer_hits_are_seen_as_the_first_of_many(tmp_path, family):
    rows = random_rows(60, DIM, seed=3, family=family)
    query = random_embeddings(4, DIM, seed=4, family=family)
    whole = seen_through_engine(tmp_path / "a", rows, query)
    few = seen_through_engine(tmp_path / "b", rows, query, hits=3)
    assert few.distance.shape == (4, 3)
    assert few.between.shape == few.around.shape == (4, 3, NEIGHBOURS)
    for name in ("distance", "between", "around", "expected", "std", "var"):
        assert getattr(few, name) == pytest.approx(getattr(whole, name)[:, :3], abs=1e-6)
    assert np.array_equal(few.profile, whole.profile)


@pytest.mark.parametrize("away", [0.0, 3.0, 100.0])
def test_lists_overlap_as_they_truly_do_in_many_dimensions(tmp_path, away):
    """The last neighbour of a hit lies exactly at the radius: rounding must not drop it."""
    rows, query = random_rows(150, 256, seed=6), random_embeddings(40, 256, seed=7)
    query.mean[:, 0] += away
    found = seen_through_engine(tmp_path / "store", rows, query)
    means = rows.embeddings.mean.double().numpy()
    between = np.square(means[:, None] - means).sum(axis=-1)
    np.fill_diagonal(between, np.inf)
    lists = between.argsort(axis=1)
    to_query = np.square(query.mean.double().numpy()[:, None] - means).sum(axis=-1).argsort(axis=1)
    for count in (5, 10, 20):
        wanted = [
            [len({*own[:count]} & {*lists[x][:count]}) / count for x in own[:NEIGHBOURS]]
            for own in to_query
        ]
        overlap = evidence(found, [f"shared_{count}"])[..., 0]
        assert overlap == pytest.approx(np.array(wanted))
