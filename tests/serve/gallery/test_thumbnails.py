"""Thumbnails that are kept: the latest, within some memory, each drawn once."""

import io
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest
from PIL import Image

from surefind.images.decode import ImageRejected
from surefind.serve.gallery import thumbnails as module
from surefind.serve.gallery.thumbnails import Thumbnails

PATIENCE = 30  # seconds


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (100, 80), "green").save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def drawn(monkeypatch) -> list[tuple[bytes, int]]:
    """What was drawn; a drawing is as long as its side."""
    done: list[tuple[bytes, int]] = []

    def draw(content: bytes, side: int) -> bytes:
        done.append((content, side))
        return content[:1] * side

    monkeypatch.setattr(module, "draw_thumbnail", draw)
    return done


def never() -> bytes:
    raise AssertionError("read though it is kept")


def test_a_thumbnail_is_a_picture():
    found = Thumbnails().of("a", 64, read=picture)
    assert Image.open(io.BytesIO(found)).size == (64, 51)


def test_a_second_question_reads_and_draws_nothing(drawn):
    kept = Thumbnails()
    first = kept.of("a", 64, read=lambda: b"a")
    assert kept.of("a", 64, read=never) == first
    assert (len(drawn), kept.hits, kept.misses) == (1, 1, 1)


def test_another_side_or_key_is_another_thumbnail(drawn):
    kept = Thumbnails()
    kept.of("a", 64, read=lambda: b"a")
    assert kept.of("a", 65, read=lambda: b"a") == b"a" * 65
    assert kept.of("b", 64, read=lambda: b"b") == b"b" * 64
    assert kept.misses == 3


def test_those_not_asked_for_longest_go_first(drawn):
    kept = Thumbnails(most_bytes=200)
    for key in "abc":
        kept.of(key, 64, read=key.encode)
    kept.of("a", 64, read=never)
    kept.of("d", 64, read=lambda: b"d")
    for key in "acd":
        kept.of(key, 64, read=never)
    kept.of("b", 64, read=lambda: b"b")
    assert len(drawn) == 5


def test_memory_stays_below_the_limit(drawn):
    kept = Thumbnails(most_bytes=1000)
    for number in range(500):
        kept.of(number, 64 + number % 200, read=lambda: b"x")
        assert kept.bytes <= 1000
    assert kept.bytes == sum(len(value) for value in kept._kept.values())


def test_one_that_is_too_large_is_given_and_not_kept(drawn):
    kept = Thumbnails(most_bytes=10)
    assert kept.of("a", 64, read=lambda: b"a") == b"a" * 64
    assert (len(kept), kept.bytes) == (0, 0)


def test_threads_that_ask_for_the_same_one_draw_it_once(drawn):
    kept, begun, go_on = Thumbnails(), Event(), Event()

    def read() -> bytes:
        begun.set()
        assert go_on.wait(PATIENCE)
        return b"a"

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(kept.of, "a", 64, read=read)
        assert begun.wait(PATIENCE)
        others = [pool.submit(kept.of, "a", 64, read=never) for _ in range(7)]
        while kept.hits < 7:
            assert not first.done()
        go_on.set()
        found = {future.result(PATIENCE) for future in [first, *others]}
    assert found == {b"a" * 64}
    assert (len(drawn), kept.misses, kept.hits) == (1, 1, 7)


def test_another_picture_does_not_wait_for_one_that_is_being_drawn(drawn):
    kept, both = Thumbnails(), Barrier(2, timeout=PATIENCE)

    def read() -> bytes:
        both.wait()
        return b"x"

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(kept.of, key, 64, read=read) for key in "ab"]
        assert [future.result(PATIENCE) for future in futures] == [b"x" * 64] * 2


def test_a_failure_is_told_to_all_who_wait_and_is_not_kept(drawn):
    kept, begun, go_on = Thumbnails(), Event(), Event()

    def fail() -> bytes:
        begun.set()
        assert go_on.wait(PATIENCE)
        raise ImageRejected("truncated")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(kept.of, "a", 64, read=fail)
        assert begun.wait(PATIENCE)
        second = pool.submit(kept.of, "a", 64, read=never)
        while kept.hits < 1:
            assert not first.done()
        go_on.set()
        for future in (first, second):
            with pytest.raises(ImageRejected, match="truncated"):
                future.result(PATIENCE)
    assert kept.of("a", 64, read=lambda: b"a") == b"a" * 64
