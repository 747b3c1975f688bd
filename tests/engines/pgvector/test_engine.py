"""Rows of any size, and many readers and writers at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from surefind.engines.pgvector import engine as pgvector
from surefind.engines.pgvector import schema
from surefind.engines.registry import open_engine


def keys_of(engine):
    return [key for block in engine.scan() for key in block.keys]


def count_of(blocks) -> int:
    return sum(len(block.keys) for block in blocks)


def test_many_rows_go_in_several_statements(make_engine, make_rows, monkeypatch):
    monkeypatch.setattr(pgvector, "NUMBERS_AT_ONCE", 100)
    engine = make_engine()
    rows = make_rows(count=23)
    engine.add(rows)
    blocks = list(engine.scan())
    assert [len(block.keys) for block in blocks] == [11, 11, 1]
    found = engine.rows([key for block in blocks for key in block.keys])
    order = [found.ids.index(name) for name in rows.ids]
    assert torch.equal(found.embeddings.mean[order], rows.embeddings.mean)


@pytest.mark.parametrize("dim", [1, 1600, 15_999])
def test_vectors_of_any_width_are_kept_beside_large_metadata(dim, make_engine, make_rows):
    engine = make_engine(dim=dim)
    rows = make_rows("i" * 1024, dim=dim, digest="0" * 64, metadata={"text": "xyz" * 3000})
    engine.add(rows)
    found = engine.rows(keys_of(engine))
    assert torch.equal(found.embeddings.mean, rows.embeddings.mean)
    assert found.metadata == rows.metadata


def test_writers_of_the_same_rows_do_not_wait_for_each_other(make_engine, make_rows, reopen):
    first, second = make_engine(), reopen()
    names = [f"row {number}" for number in range(200)]
    old = make_rows(*names, metadata={"by": 1})
    new = make_rows(*reversed(names), metadata={"by": 2})

    def work(engine, rows) -> None:
        for turn in range(8):
            engine.add(rows)
            if turn % 3 == 0:
                engine.remove(rows.ids[:100])
        engine.add(rows)

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(work, first, old), threads.submit(work, second, new)]:
            done.result()
    assert first.count() == 200
    assert first.verify() == []
    assert len({row["by"] for row in first.rows(keys_of(first)).metadata}) == 1  # whole calls


def test_a_scan_sees_one_moment_while_others_write(make_engine, make_rows, monkeypatch):
    monkeypatch.setattr(pgvector, "NUMBERS_AT_ONCE", 90)
    engine = make_engine()
    engine.add(make_rows(count=50))
    blocks = engine.scan()
    seen = len(next(blocks).keys)
    engine.remove([f"row {number}" for number in range(40)])
    engine.add(make_rows("late"))
    assert seen + count_of(blocks) == 50
    assert count_of(engine.scan()) == 11


def test_an_abandoned_scan_leaves_no_open_transaction(make_engine, make_rows, server, monkeypatch):
    states = "SELECT state FROM pg_stat_activity WHERE application_name = 'surefind' AND state <> 'idle'"
    monkeypatch.setattr(pgvector, "NUMBERS_AT_ONCE", 90)
    engine = make_engine()
    engine.add(make_rows(count=50))
    blocks = engine.scan()
    next(blocks)
    assert server.run(states) == [("idle in transaction",)]
    del blocks
    assert server.run(states) == []
    assert count_of(engine.scan()) == 50


def test_refresh_tells_of_others_and_not_of_oneself(make_engine, make_rows, reopen):
    engine, other = make_engine(), reopen()
    assert not engine.refresh()
    engine.add(make_rows("a"))
    assert not engine.refresh()
    assert other.refresh()
    assert not other.refresh()
    other.remove(["nothing"])
    assert not engine.refresh()
    other.remove(["a"])
    engine.add(make_rows("b"))
    assert engine.refresh()
    assert not engine.refresh()


def test_rows_are_on_the_disk_even_where_the_database_does_not_ask_for_it(make_engine, make_rows, url, monkeypatch):
    make_engine()
    engine = open_engine(url + "&options=-c%20synchronous_commit%3Doff")
    settings, noting = [], schema.note_change

    def watched(session, *others, **named) -> int:
        settings.extend(session.run("SHOW synchronous_commit"))
        return noting(session, *others, **named)

    monkeypatch.setattr(schema, "note_change", watched)
    engine.add(make_rows("a"))
    engine.close()
    assert settings == [("on",)]
