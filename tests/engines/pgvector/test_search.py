"""Searches find what a loop over all rows finds; a graph finds nearly all of it."""

import numpy as np
import pytest
import torch

import surefind as sf
from surefind.engines.base import Rows
from surefind.engines.filters import Condition, Where
from surefind.engines.pgvector import queries as statements
from surefind.engines.pgvector.queries import clause
from surefind.engines.registry import create_engine
from surefind.engines.space import Space

KINDS = ("flat", "hnsw", "ivf")
# With so few rows the server would rather look at all of them.
FORCED = "&options=-c%20enable_seqscan%3Doff%20-c%20enable_bitmapscan%3Doff"


def clustered(count: int, dim: int) -> Rows:
    """As embeddings are: some fifty groups."""
    generator = torch.Generator().manual_seed(1)
    centres = torch.randn(50, dim, generator=generator)
    group = torch.arange(count) % 50
    mean = centres[group] + 0.4 * torch.randn(count, dim, generator=generator)
    var = 0.01 + 0.1 * torch.rand(count, generator=generator)
    metadata = tuple({"group": int(g), "rare": n % 500 == 0} for n, g in enumerate(group))
    ids = tuple(f"{number}" for number in range(count))
    return Rows(ids, sf.Gaussians(mean, var), ("",) * count, metadata)


@pytest.fixture(scope="module")
def gallery() -> Rows:
    return clustered(4000, 24)


@pytest.fixture(scope="module")
def engines(server, gallery):
    made = {}
    for kind in KINDS:
        engine = create_engine(server.fresh_url() + FORCED, Space("gaussian", 24), {}, kind=kind)
        engine.add(gallery)
        engine.compact()
        made[kind] = engine
    yield made
    for engine in made.values():
        engine.close()


@pytest.fixture(scope="module")
def queries(engines, gallery) -> np.ndarray:
    return engines["flat"].space.query_vectors(gallery.embeddings[:40]) + np.float32(0.05)


def true_distances(engine, gallery: Rows, queries: np.ndarray) -> np.ndarray:
    stored = engine.space.gallery_vectors(gallery.embeddings).astype(np.float64)
    return np.square(queries[:, None].astype(np.float64) - stored).sum(-1)


def ids(engine, keys: np.ndarray) -> list[list[int]]:
    return [[int(name) for name in engine.rows(row).ids] for row in keys]


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_and_variances_are_those_of_the_hits(kind, engines, gallery, queries):
    engine = engines[kind]
    found = engine.search(queries, 7)
    rows = np.array(ids(engine, found.keys))
    np.testing.assert_array_equal(
        found.vectors, engine.space.gallery_vectors(gallery.embeddings)[rows]
    )
    np.testing.assert_array_equal(found.var, engine.space.var(gallery.embeddings)[rows])


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
@pytest.mark.parametrize("k", [10, 300, 1500])
def test_an_index_finds_nearly_all_of_the_nearest(kind, k, engines, gallery, queries):
    engine = engines[kind]
    order = np.argsort(true_distances(engine, gallery, queries), axis=1)[:, :k]
    found = engine.search(queries, k)
    assert found.keys.shape == (len(queries), k)
    assert (np.diff(found.distance, axis=1) >= 0).all()
    same = [len({*a} & {*b}) for a, b in zip(order, ids(engine, found.keys), strict=True)]
    assert np.mean(same) / k >= 0.99


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "condition",
    [Condition("group", "=", 3), Condition("rare", "=", True), Condition("var", "<", 0.0103)],
)
def test_conditions_leave_as_many_hits_as_there_are_rows(
    kind, condition, engines, gallery, queries
):
    where = Where((condition,))
    var = gallery.embeddings.spread.double().tolist()
    rows = zip(gallery.metadata, var, strict=True)
    fitting = {row for row, (data, one) in enumerate(rows) if where.holds(data, one)}
    found = engines[kind].search(queries, 80, where)
    assert found.keys.shape == (len(queries), min(80, len(fitting)))
    assert np.isfinite(found.distance).all()
    assert all({*row} <= fitting for row in ids(engines[kind], found.keys))


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_that_nothing_satisfies_give_no_columns(kind, engines, queries):
    found = engines[kind].search(queries, 5, Where((Condition("group", "=", "text"),)))
    assert found.keys.shape == found.distance.shape == found.var.shape == (40, 0)
    assert found.vectors.shape == (40, 0, 25)
    assert engines[kind].search(queries[:0], 5).vectors.shape == (0, 0, 25)


def test_queries_beyond_one_block_are_all_answered(engines, queries, monkeypatch):
    whole = engines["flat"].search(queries, 5)
    monkeypatch.setattr("surefind.engines.pgvector.queries.QUERIES_AT_ONCE", 7)
    np.testing.assert_array_equal(engines["flat"].search(queries, 5).keys, whole.keys)


def test_queries_that_a_graph_gives_up_on_are_answered_by_looking_at_all(server, gallery, queries):
    hasty = FORCED + "%20-c%20hnsw.max_scan_tuples%3D1"
    engine = create_engine(server.fresh_url() + hasty, Space("gaussian", 24), {}, kind="hnsw")
    engine.add(gallery)
    engine.compact()
    where = clause(Where((Condition("group", "=", 3),)))
    alone = statements.search_hits(
        engine._connections, queries, np.arange(40), k=70, clause=where, index=engine._index
    )
    short = np.bincount(alone["query"], minlength=40) < 70
    assert short.any()
    found = engine.search(queries, 70, Where((Condition("group", "=", 3),)))
    engine.close()
    distances = true_distances(engine, gallery, queries)
    distances[:, [row["group"] != 3 for row in gallery.metadata]] = np.inf
    nearest = np.sort(distances, axis=1)[:, :70]
    assert np.isfinite(found.distance).all() and found.keys.shape == (40, 70)
    np.testing.assert_allclose(found.distance[short], nearest[short], rtol=1e-5)


def test_values_never_become_part_of_the_statement():
    text = clause(Where((Condition("field", "<", "evil'"), Condition("fiend", "in", ("evil'",)))))
    statement = text.text.as_string()
    assert "evil" not in statement and "fie" not in statement.replace("fields", "")
    assert sum("evil" in str(value) for value in text.parameters.values()) == 2


def test_texts_are_ordered_by_code_point_whatever_the_language_of_the_database(engines):
    """Which other languages a machine has is not known here, so the statement is looked at."""
    text = clause(Where((Condition("field", "<", "a"),))).text.as_string()
    assert '->> %(value_2)s::text) COLLATE "C" < ' in text
    engine = engines["flat"]
    with engine._connections.borrowed() as session:
        columns = session.run(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
            " AND collation_name = 'C'",
            [session.table.name],
        )
    assert {("id",), ("digest",)} <= {*columns}
