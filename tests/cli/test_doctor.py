"""surefind doctor, as a user reads it."""

import json

import pytest

from surefind import doctor
from surefind.doctor import Finding


@pytest.fixture
def patient(monkeypatch):
    """What the doctor will find."""

    def arrange(*findings: Finding) -> None:
        groups = {"packages": list(findings), "machine": []}
        monkeypatch.setattr(doctor, "examine", lambda urls: groups)

    return arrange


def test_findings_are_aligned_and_a_remedy_has_a_line_of_its_own(surefind, patient):
    escape = Finding("torch", "fine", "2.6\x1b[2J")
    patient(escape, Finding("long name", "absent", "not there", "pip install it"))
    done = surefind("doctor")
    lines = [line.rstrip() for line in done.out.splitlines()]
    assert done.code == 0
    assert "  --    long name  not there" in lines
    assert f"{' ' * 19}fix: pip install it" in lines
    assert lines[-1] == "everything that is needed works"
    assert "\x1b[2J" not in done.out


def test_what_is_broken_is_named_at_the_end_and_fails(surefind, patient):
    patient(Finding("torch", "fine", "2.6"), Finding("timm", "broken", "gone", "pip install timm"))
    done = surefind("doctor")
    assert (done.code, done.out.splitlines()[-1]) == (1, "does not work: timm")
    done = surefind("doctor", "--json")
    told = json.loads(done.out)
    assert (done.code, told["fine"]) == (1, False)
    assert told["packages"][1] == {
        "what": "timm", "state": "broken", "seen": "gone", "fix": "pip install timm"
    }  # fmt: skip
    assert told["machine"][0]["what"] == "terminal"
