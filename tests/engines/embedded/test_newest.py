"""A newer version beside an old one that goes on answering."""

import numpy as np
import pytest
from stores import answers, contents, files_of, filled, flip_bit, made, opened, some_rows

from surefind.engines.embedded import loading
from surefind.engines.embedded.folder import Folder
from surefind.engines.engine import EngineError


def test_the_old_one_goes_on_with_its_version_and_its_removed_rows(place):
    writer = filled(place)
    old = opened(place)
    before, asked = contents(old), answers(old)
    keys = np.concatenate([block.keys for block in old.scan()])
    writer.remove(old.rows(keys[:7]).ids)
    writer.add(some_rows(9, 5, prefix="new"))
    writer.compact()  # its files are cleaned away by the next change
    writer.add(some_rows(1, 6, prefix="last"))
    newer = old.newest()
    assert contents(newer) == contents(writer)
    assert contents(old) == before and answers(old) == asked
    assert len(old.rows(keys)) == len(keys) == len(before)
    assert old.find(["row-1", "last-0"]).ids == ("row-1",)
    assert newer.find(["last-0"]).ids == ("last-0",)


def test_closing_the_old_one_leaves_the_newer_one_open(place):
    writer, old = filled(place), opened(place)
    writer.remove(["row-1"])
    newer = old.newest()
    old.close()
    assert contents(newer) == contents(writer)
    with pytest.raises(EngineError, match="closed"):
        old.newest()


def test_what_is_open_is_not_read_again(place, monkeypatch):
    writer = filled(place)
    old = opened(place)
    writer.add(some_rows(3, 7, prefix="new"))
    read = []
    monkeypatch.setattr(
        loading,
        "open_segment",
        lambda files, piece, real=loading.open_segment, **its: (
            read.append(piece) or real(files, piece, **its)
        ),
    )
    newer = old.newest()
    assert [piece.rows for piece in read] == [3]
    assert contents(newer) == contents(writer)


def test_own_writes_are_no_news(place):
    engine = made(place)
    engine.add(some_rows(4, 1))
    assert engine.newest() is None


def test_a_damaged_newest_version_leaves_the_one_before_and_a_warning(place):
    writer, old = filled(place), opened(place)
    before = contents(old)
    known = set(files_of(place))
    writer.add(some_rows(3, 7, prefix="new"))
    (segment,) = (path for path in set(files_of(place)) - known if path.suffix == ".segment")
    whole = segment.read_bytes()
    flip_bit(segment)
    newer = old.newest()
    assert contents(newer) == contents(old) == before
    assert str(segment) in " ".join(newer.warnings) and old.warnings == ()
    assert newer.newest() is None  # nothing else is wrong
    segment.write_bytes(whole)
    mended = newer.newest()
    assert mended.warnings == () and contents(mended) == contents(writer)


def test_a_repaired_index_is_news(place):
    writer, old = filled(place), opened(place)
    writer.add(some_rows(3, 7, prefix="new"))
    flip_bit(Folder(place).manifest(Folder(place).version_numbers()[0]))
    damaged = old.newest()
    assert damaged.warnings
    opened(place).repair()
    repaired = damaged.newest()
    assert repaired.warnings == () and contents(repaired) == contents(old)


def test_an_index_made_anew_in_its_place_is_refused(place, tmp_path):
    old = filled(place)
    place.rename(tmp_path / "away")
    made(place).add(some_rows(5, 8))
    with pytest.raises(EngineError, match="another index was made"):
        old.newest()
    assert old.count() == 28
