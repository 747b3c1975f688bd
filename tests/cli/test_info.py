"""surefind info as a user calls it."""

import json
from pathlib import Path

from surefind.encoders import Encoder
from surefind.search.index import Index


def test_info_tells_what_is_in_an_index(surefind, finished: Path, model: Path):
    done = surefind("info", finished)
    assert done.code == 0
    told = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert told["images"] == "20"
    assert told["fingerprint"] == Encoder.load(model).fingerprint
    assert (told["family"], told["dim"], told["ranking"]) == ("gaussian", "15", "mean")
    assert (told["engine"], told["kind"]) == ("faiss", "flat")
    assert "created" in told and "version" in told
    assert told["bytes"].endswith(("kB", "MB"))


def test_json_has_the_same_facts(surefind, finished: Path):
    facts = json.loads(surefind("info", finished, "--json").out)
    assert (facts["images"], facts["dim"], facts["warnings"]) == (20, 15, [])
    assert isinstance(facts["bytes"], int)


def test_warnings_are_told(surefind, finished: Path, monkeypatch):
    monkeypatch.setattr(Index, "warnings", ("version 7\x1b[2J is damaged",))
    assert "warning: version 7�[2J is damaged" in surefind("info", finished).out


def test_a_folder_without_an_index_is_one_error(surefind, gallery: Path):
    for command in ("info", "verify"):
        for place in (gallery, gallery / "nowhere"):
            done = surefind(command, place)
            assert done.code == 1
            assert "holds no index" in done.err
            assert "fix:" in done.err
