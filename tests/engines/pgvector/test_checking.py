"""Damage is found and said in sentences; an engine describes itself."""

import re

import pytest

FAULTS = {
    "var = -1": "1 row has a variance that is not positive and finite.",
    "var = 'NaN'": "1 row has a variance that is not positive and finite.",
    "var = 'Infinity'": "1 row has a variance that is not positive and finite.",
    "digest = 'abc'": "1 row has a digest that is not a sha256.",
    "metadata = '[1]'": "1 row has metadata that are not fields with values.",
}


@pytest.fixture
def table(url) -> str:
    return url.rpartition("=")[2]


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf"])
def test_a_sound_engine_has_nothing_to_say(kind, make_engine, make_rows):
    engine = make_engine(kind=kind)
    assert engine.verify() == []
    engine.add(make_rows(count=40, digest="0" * 64))
    engine.compact()
    engine.remove(["row 1"])
    engine.add(make_rows("row 2"))
    assert engine.verify() == []


@pytest.mark.parametrize("change", FAULTS)
def test_a_bad_row_is_found(change, make_engine, make_rows, server, table):
    engine = make_engine()
    engine.add(make_rows(count=10))
    server.run(f"UPDATE {table} SET {change} WHERE id = 'row 3'")
    assert engine.verify() == [FAULTS[change]]


def test_an_index_that_is_not_valid_is_found(make_engine, make_rows, server, table):
    engine = make_engine(kind="hnsw")
    engine.add(make_rows(count=10))
    engine.compact()
    assert engine.verify() == []
    server.run(
        "UPDATE pg_index SET indisvalid = false"
        f" WHERE indrelid = '{table}'::regclass AND indexrelid::regclass::text LIKE '%vector%'"
    )
    (sentence,) = engine.verify()
    assert re.fullmatch(r"The index \w*vector\w* is not valid: REINDEX it.", sentence)
    assert engine.refresh() and engine.exact
    engine.compact()
    assert not engine.exact and engine.verify() == []


def test_an_index_over_ids_that_lacks_rows_is_found(make_engine, make_rows, server, table):
    engine = make_engine()
    engine.add(make_rows(count=10))
    ready = f"UPDATE pg_index SET indisready = %s WHERE indexrelid = '{table}_pkey'::regclass"
    copy = f"INSERT INTO {table} (id, vector, var, metadata) SELECT %s, vector, var, metadata"
    server.run(
        ready % "false",
        copy % "'new'" + f" FROM {table} WHERE id = 'row 1'",
        copy % "id" + f" FROM {table} WHERE id = 'row 2'",
        ready % "true",
    )
    assert engine.verify() == [
        "1 row has an id that another row has.",
        "10 rows are noted where 12 are: compact the index.",
        "The index over ids knows 10 of 12 rows: REINDEX the table.",
    ]


def test_rows_that_others_removed_are_counted_anew_when_compacting(
    make_engine, make_rows, server, table
):
    engine = make_engine()
    engine.add(make_rows(count=10))
    server.run(f"DELETE FROM {table} WHERE id < 'row 4'")
    assert engine.verify() == ["10 rows are noted where 6 are: compact the index."]
    engine.compact()
    assert engine.verify() == []
    assert engine.count() == 6


def test_damage_on_the_disk_is_found(make_engine, make_rows, server, table):
    if server.run("SHOW data_checksums") != [("on",)]:
        pytest.skip("this server writes no checksums")
    engine = make_engine()
    engine.add(make_rows(count=100))
    ((path,),) = server.run("CHECKPOINT", f"SELECT pg_relation_filepath('{table}')")
    server.stop()
    file = server.data / path
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(content)
    server.start()
    (sentence,) = engine.verify()
    assert sentence.startswith("The server found damage: invalid page in block 0")
    server.run(f"DROP TABLE {table}")


def test_an_engine_describes_itself(make_engine, make_rows, server, table):
    engine = make_engine(kind="auto")
    engine.add(make_rows(count=10))
    description = engine.describe()
    assert description["engine"] == "pgvector"
    assert description["place"].endswith(f"table={table}")
    assert (description["table"], description["rows"]) == (table, 10)
    assert (description["kind"], description["asked_kind"]) == ("flat", "auto")
    assert description["bytes"] > 10_000
    assert re.fullmatch(r"PostgreSQL \d+\.\d+", description["server"])
    assert re.fullmatch(r"pgvector \d+\.\d+\.\d+", description["extension"])


def test_auto_warns_that_there_will_be_no_graph(make_engine):
    assert "too wide for a graph" in make_engine(dim=2000).warnings[0]


def test_an_engine_in_order_has_no_warnings(make_engine, make_rows):
    engine = make_engine(kind="hnsw")
    engine.add(make_rows(count=50))
    assert engine.refresh() is False
    assert engine.warnings == ()


def test_rows_that_wait_for_compacting_are_warned_about(make_engine, make_rows, monkeypatch):
    monkeypatch.setattr("surefind.engines.pgvector.about.SLOW", 50)
    engine = make_engine(kind="hnsw")
    engine.add(make_rows(count=50))
    with engine._connections.borrowed() as connection:
        connection.execute("ANALYZE")
    engine.refresh()
    assert "compact the index" in engine.warnings[0]
    engine.compact()
    assert engine.warnings == ()
