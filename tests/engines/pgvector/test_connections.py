"""Connections that end, die, or belong to another process."""

import os
import time

import pytest

from surefind.engines.engine import EngineError
from surefind.engines.opening import create_engine
from surefind.engines.pgvector import writing
from surefind.engines.space import Space


def count_of(blocks) -> int:
    return sum(len(block.keys) for block in blocks)


def end_connections(server) -> None:
    server.run(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name = 'surefind'"
    )


def await_connections(server, number: int) -> None:
    """A server forgets a connection a moment after it was closed."""
    statement = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'surefind'"
    deadline = time.monotonic() + 20
    while server.run(statement) != [(number,)]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_closing_during_a_scan_ends_its_connection_too(make_engine, make_rows, server, monkeypatch):
    monkeypatch.setattr("surefind.engines.pgvector.reading.NUMBERS_AT_ONCE", 90)
    engine = make_engine()
    engine.add(make_rows(count=50))
    blocks = engine.scan()
    next(blocks)
    engine.close()
    assert count_of(blocks) == 40
    await_connections(server, 0)


def test_an_engine_that_is_forgotten_closes_its_connections(make_rows, server, url):
    engine = create_engine(url, Space("gaussian", 8), {})
    engine.count()
    await_connections(server, 1)
    del engine
    await_connections(server, 0)


def test_a_connection_that_dies_between_calls_is_replaced_unseen(make_engine, make_rows, server):
    engine = make_engine()
    engine.add(make_rows("a"))
    end_connections(server)
    assert engine.count() == 1
    server.restart()
    engine.add(make_rows("b"))
    assert engine.count() == 2


def test_a_connection_lost_in_the_middle_is_an_error_and_the_next_call_works(
    make_engine, make_rows, server, monkeypatch
):
    monkeypatch.setattr("surefind.engines.pgvector.reading.NUMBERS_AT_ONCE", 90)
    engine = make_engine()
    engine.add(make_rows(count=50))
    blocks = engine.scan()
    next(blocks)
    end_connections(server)
    with pytest.raises(EngineError, match="shuts down or restarts|was lost") as caught:
        next(blocks)
    assert "call again" in caught.value.fix
    assert engine.count() == 50


def test_an_add_whose_connection_dies_leaves_nothing_and_can_be_repeated(
    make_engine, make_rows, server, monkeypatch
):
    engine = make_engine()
    put = writing.put
    rows = make_rows(count=20)

    def dying(*arguments) -> int:
        new = put(*arguments)
        end_connections(server)
        return new

    monkeypatch.setattr(writing, "put", dying)
    with pytest.raises(EngineError, match="shuts down or restarts|was lost"):
        engine.add(rows)
    monkeypatch.undo()
    assert engine.count() == 0
    engine.add(rows)
    assert engine.count() == 20


def test_a_server_that_was_away_is_found_again(make_engine, make_rows, server):
    engine = make_engine()
    engine.add(make_rows("a"))
    server.stop()
    try:
        for _ in range(2):
            with pytest.raises(EngineError, match="cannot connect") as caught:
                engine.count()
            assert "start the server" in caught.value.fix
    finally:
        server.start()
    assert engine.count() == 1


def test_a_child_process_does_not_use_the_connections_of_its_parent(
    make_engine, make_rows, monkeypatch
):
    engine = make_engine()
    engine.add(make_rows("a"))
    (kept,) = engine._connections._free
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        with engine._connections.borrowed() as connection:
            assert connection is not kept
    assert not kept.closed
    assert engine.count() == 1


def test_a_connection_that_another_thread_takes_first_is_made_anew(make_engine, make_rows):
    class Overtaken(list):
        """Many are there when looked at, and none when taken."""

        def __len__(self) -> int:
            return 9

        def pop(self):
            raise IndexError

    engine = make_engine()
    engine.add(make_rows(count=3))
    engine._connections._free = Overtaken()
    assert engine.count() == 3
