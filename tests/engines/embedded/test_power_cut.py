"""The power may go off between any two steps: what was acknowledged is there, whole."""

import pytest
from power_cut import recorded, restored
from stores import contents, filled, made, opened, some_rows

from surefind.engines.embedded import building
from surefind.errors import InvalidFile

WRITES = {
    "add": lambda engine: engine.add(some_rows(6, 8)),
    "merge": lambda engine: engine.add(some_rows(9, 8, prefix="new")),
    "remove": lambda engine: engine.remove(["row-1", "other-2"]),
    "compact": lambda engine: engine.compact(),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_power_cut_leaves_the_older_or_the_newer_version(request, monkeypatch, place, name: str):
    monkeypatch.setattr(building, "GRAPH_FROM", 15)
    if name == "merge":
        request.getfixturevalue("small_tiers")
    engine = filled(place, kind="hnsw")
    before = contents(engine)
    with recorded(place) as disk:
        WRITES[name](engine)
        done = len(disk.states)
        disk.cut()
    after = contents(engine)
    assert len(disk.states) > 15
    for number, state in enumerate(disk.states):
        cut = opened(restored(state, place.with_name(str(number))))
        assert cut.warnings == ()
        found = contents(cut)
        assert found in (before, after)
        assert number < done or found == after


def test_what_was_acknowledged_outlasts_a_power_cut(place):
    engine = made(place)
    for step in range(3):
        with recorded(place) as disk:
            engine.add(some_rows(5, step, prefix=f"step-{step}"))
            disk.states.clear()
            disk.cut()
        for number, state in enumerate(disk.states):
            cut = opened(restored(state, place.with_name(f"{step}-{number}")))
            assert cut.warnings == () and contents(cut) == contents(engine)


def test_a_power_cut_while_an_index_is_made_leaves_none_or_all_of_it(tmp_path):
    (tmp_path / "disk").mkdir()
    with recorded(tmp_path / "disk") as disk:
        made(tmp_path / "disk" / "index")
    finished = 0
    for number, state in enumerate(disk.states):
        place = restored(state, tmp_path / str(number)) / "index"
        try:
            engine = opened(place)
            finished += 1
        except InvalidFile:
            engine = made(place)
        assert engine.count() == 0 and engine.verify() == []
    assert 0 < finished < len(disk.states)
