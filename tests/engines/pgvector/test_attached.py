"""Tables that another program filled: found and judged as our own, and never changed."""

import json

import numpy as np
import pytest
import torch
from galleries import clustered_embeddings
from memory_engine import MemoryEngine

import surefind as sf
from surefind.engines.base import EngineError, Rows
from surefind.engines.filters import Where
from surefind.engines.registry import attached_url, create_engine, open_engine

DIM = 6
COLUMNS = """
sku bigint PRIMARY KEY, embedding vector(6), kind text, price real, stock integer, sold boolean,
added date, extra json, "Odd name" text, rating double precision
"""
MEANS = clustered_embeddings(288, DIM, seed=0, classes=24)
LABELS = [f"class {n % 24}" for n in range(288)]


def literal(vector) -> str:
    return json.dumps([float(number) for number in vector])


@pytest.fixture(scope="module")
def shop(server):
    """A schema with a table, a view of it, and a user who may only read."""
    values = ", ".join(
        f"({n}, '{literal(mean)}', '{label}', {n / 4}, {n % 7}, {n % 2 == 0},"
        f" '2024-01-{n % 28 + 1:02}', '{{}}', 'x', {'NULL' if n % 3 else f'{n}.5'})"
        for n, (mean, label) in enumerate(zip(MEANS.mean, LABELS, strict=True))
    )
    server.run(
        "CREATE EXTENSION IF NOT EXISTS vector",
        "CREATE SCHEMA shop",
        f'CREATE TABLE shop."Items" ({COLUMNS})',
        f'INSERT INTO shop."Items" VALUES {values}',
        """INSERT INTO shop."Items" (sku, kind) VALUES (1000, 'without a vector')""",
        """CREATE VIEW shop.sold AS SELECT sku::text AS code, embedding::halfvec(6) AS half, kind
        FROM shop."Items" WHERE sold""",
        "CREATE ROLE shopper LOGIN",
        "GRANT USAGE ON SCHEMA shop TO shopper",
        "GRANT SELECT ON ALL TABLES IN SCHEMA shop TO shopper",
    )
    return server


def place(server, name: str = "shop.Items") -> str:
    return server.url(user="shopper", table=name)


def state(server) -> tuple:
    """Rows, columns, indexes and tables of the database."""
    return (
        server.run("""SELECT md5(string_agg(t::text, ',' ORDER BY sku)) FROM shop."Items" AS t"""),
        server.run(
            "SELECT table_schema, table_name, column_name, data_type"
            " FROM information_schema.columns WHERE table_schema <> 'pg_catalog' ORDER BY 1, 2, 3"
        ),
        server.run("SELECT schemaname, indexname FROM pg_indexes ORDER BY 1, 2"),
    )


def twin(metric: str) -> MemoryEngine:
    """The same rows in memory."""
    mean = MEANS.mean if metric == "l2" else torch.nn.functional.normalize(MEANS.mean, dim=1)
    metadata = tuple(
        {"label": label, "kind": label, "price": n / 4, "stock": n % 7, "sold": n % 2 == 0}
        | {"added": f"2024-01-{n % 28 + 1:02}"}
        | ({} if n % 3 else {"rating": n + 0.5})
        for n, label in enumerate(LABELS)
    )
    engine = MemoryEngine(sf.engines.base.Space("gaussian", DIM, "mean"))
    embeddings = sf.Gaussians(mean, torch.full((len(LABELS),), 1e-8))
    names = tuple(map(str, range(len(LABELS))))
    engine.add(Rows(names, embeddings, ("",) * len(names), metadata))
    return engine


@pytest.fixture(params=["l2", "cosine"])
def both(shop, request):
    """The attached table, and the same rows in memory."""
    url = attached_url(place(shop), vector="embedding", id="sku", label="kind", metric=request.param)
    engine = open_engine(url)
    yield engine, twin(request.param)
    engine.close()


@pytest.mark.parametrize("step", [10, 100], ids=["many", "few"])
def test_searches_find_what_is_nearest_in_memory(both, step, monkeypatch):
    monkeypatch.setattr("surefind.engines.pgvector.engine.NUMBERS_AT_ONCE", 100 * DIM)
    engine, memory = both
    query = sf.Gaussians(MEANS.mean[::step] + 0.01, MEANS.var[::step])
    for where in (None, Where.parse("price < 30"), Where.parse({"kind": "class 3", "sold": True})):
        found, wanted = (one.search(engine.space.queries(query).vectors, 9, where) for one in (engine, memory))
        assert np.allclose(found.distance, wanted.distance, atol=1e-4)
        assert np.allclose(found.vectors, wanted.vectors, atol=1e-5)
        ids = [memory.rows(keys).ids for keys in wanted.keys]
        assert [list(map(str, keys)) for keys in found.keys] == [list(its) for its in ids]


def test_rows_are_those_of_the_table_with_its_columns_as_metadata(both):
    engine, memory = both
    asked = ["17", "3", "nobody", "01", "1000", "288", "9" * 30]
    found, wanted = engine.find(asked), memory.find(asked)
    assert found.ids == wanted.ids == ("17", "3")
    assert found.metadata == wanted.metadata
    assert torch.allclose(found.embeddings.mean, wanted.embeddings.mean)
    assert engine.count() == memory.count() == sum(len(block.keys) for block in engine.scan())
    assert engine.digests_of(["3", "x"]) == {"3": ""} and engine.ids_of(["a" * 64]) == {}
    assert engine.verify() == [] and not engine.refresh() and engine.newest() is None


@pytest.mark.parametrize(
    "written",
    [
        *("kind=class 3", "label != class 3", "kind in class 1,class 2", "kind < class 2"),
        *("price = 0.25", "price>=20", "stock=3", "stock<2.5", "stock in 1,2", "sold=true"),
        *("sold != true", "added >= 2024-01-15", "rating > 5", "rating != 3.5", "var < 1"),
    ],
)
def test_columns_are_conditions(both, written):
    engine, memory = both
    where = Where.parse(written)
    assert engine.count(where) == memory.count(where) > 0


@pytest.mark.parametrize("written", ["color=red", "price=cheap", "extra=1", "embedding=1"])
def test_other_conditions_are_errors_that_name_the_columns(both, written):
    with pytest.raises(sf.InvalidArgument, match="added, kind, label, .*stock|expected a number"):
        both[0].count(Where.parse(written))


def test_a_view_with_short_floats_is_attached_too(shop):
    url = attached_url(place(shop, "shop.sold"), vector="half", id="code", metric="cosine")
    engine = open_engine(url)
    assert engine.count() == len(LABELS) // 2
    query = sf.Gaussians(MEANS.mean[4:5], MEANS.var[4:5])
    assert engine.search(engine.space.queries(query).vectors, 1).keys[0, 0] == "4"
    engine.close()


def test_it_is_calibrated_and_searched_with_confidence_and_stays_as_it_was(shop, tmp_path):
    before = state(shop)
    url = place(shop).replace("/postgres?", "/postgres/shop.Items?").partition("&table=")[0]
    with sf.Index.attach(tmp_path / "index", url, vector="embedding", id="sku", label="kind", metric="cosine") as index:
        index.calibrate()
    with sf.Index.open(tmp_path / "index", engine=url) as again:
        result = again.search(sf.Gaussians(MEANS.mean[:1] * 7, MEANS.var[:1]), k=3)[0]
        assert result.verdict and result.label and result.confidence is not None
        assert [hit.label for hit in result.hits] == [hit.metadata["kind"] for hit in result.hits]
        assert again.describe()["attached"]
        with pytest.raises(EngineError, match="only read"):
            again.remove(["3"])
        with pytest.raises(EngineError, match="only read"):
            again.add_embeddings(MEANS[:1], ["new"])
    assert state(shop) == before


def test_the_table_is_not_made(shop):
    url = attached_url(place(shop, "shop.nothing"), vector="embedding", id="sku")
    with pytest.raises(EngineError, match="no table or view shop.nothing"):
        open_engine(url)
    with pytest.raises(EngineError, match="only read"):
        create_engine(url, sf.engines.base.Space("gaussian", 6), {})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vector": "embeding"}, "did you mean 'embedding'"),
        ({"vector": "kind"}, "expected a column of vectors, got text"),
        ({"id": "nobody"}, "id: expected one of sku, embedding"),
        ({"id": "kind"}, "without repetitions, got 'class"),
        ({"label": "extra"}, "label: expected texts or numbers, got extra json"),
        ({"metric": "ip"}, "vectors of length 1 with ip"),
        ({"metric": "dot"}, "metric: expected one of l2, cosine, ip"),
    ],
)
def test_wrong_columns_are_said_to_be(shop, tmp_path, wrong, message):
    columns = {"vector": "embedding", "id": "sku", **wrong}
    with pytest.raises(sf.InvalidArgument, match=message):
        sf.Index.attach(tmp_path / "index", place(shop), **columns)
    assert not (tmp_path / "index" / "index.json").exists()


def test_two_commands_lead_from_a_table_to_an_answer(shop, tmp_path, surefind):
    np.savez(tmp_path / "queries.npz", vectors=MEANS.mean[:2].numpy())
    columns = ("--vector", "embedding", "--id", "sku", "--label", "kind")
    made = surefind("attach", place(shop), *columns, "-o", tmp_path / "index")
    assert "288 vectors, calibrated with their labels" in made.out
    found = surefind("search", tmp_path / "index", tmp_path / "queries.npz", "--json")
    assert [its["label"] for its in json.loads(found.out)] == LABELS[:2]
