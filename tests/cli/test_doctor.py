"""The findings of surefind doctor, and how they are printed."""

import json
import os
from collections.abc import Sequence
from functools import partial
from importlib import import_module, metadata
from pathlib import Path

import pytest

from surefind.cli.doctor import Finding

doctor = import_module("surefind.cli.doctor")


def seen(group: str, name: str, urls: Sequence[str] = ()) -> Finding:
    return doctor.examine(name, doctor.checks(urls)[group][name])


def test_requirements_are_those_of_the_project_and_of_an_extra(monkeypatch):
    lines = ["rich>=13", "psycopg[binary]>=3.2; extra == 'pg'", 'milvus; extra == "pg"']
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    assert doctor.required() == ["rich"]
    assert doctor.required("pg") == ["psycopg", "milvus"]


def test_a_package_that_cannot_be_imported_is_an_error_that_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(doctor, "required", lambda: ["gone", "timm"])
    gone = seen("packages", "gone")
    assert (gone.state, gone.fix) == ("error", "pip install --force-reinstall gone")
    assert seen("packages", "timm") == Finding("ok", metadata.version("timm"))


def test_a_missing_extra_comes_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(doctor, "required", lambda _=None: ["rich", "pillow-talk"])
    assert set(doctor.extras()) >= {"serve", "onnx", "pgvector", "milvus"}
    fix = "pip install 'surefind[serve]'"
    assert seen("extras", "serve") == Finding("absent", "pillow-talk not installed", fix)


def test_limits_of_the_container_are_warnings_if_they_are_low(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(doctor, "CGROUP", tmp_path)
    monkeypatch.setattr("torch.get_num_threads", lambda: 8)
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.max").write_text(f"{2**30}\n")
    cores, memory = seen("machine", "cores"), seen("machine", "memory")
    assert "container limit 0.5;" in cores.detail
    assert (cores.state, cores.fix) == ("warning", "export OMP_NUM_THREADS=1")
    assert memory.state == "warning" and "container limit 1.1 GB" in memory.detail
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert not any("container" in seen("machine", name).detail for name in ("cores", "memory"))


def test_a_cache_that_cannot_be_written_comes_with_the_variable_that_moves_it(monkeypatch, tmp_path):
    monkeypatch.setenv("SUREFIND_CACHE", str(tmp_path / "cache" / "deeper"))
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    cache = seen("folders", "cache")
    assert (cache.state, cache.fix) == ("warning", "export SUREFIND_CACHE=FOLDER")
    assert seen("folders", "temporary files").state == "ok"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("pgvector://me:secret@127.0.0.1:1/db", "pgvector://me@127.0.0.1:1/db"),
        ("milvus://127.0.0.1:1", "milvus://127.0.0.1:1"),
    ],
)
def test_a_server_that_does_not_answer_is_an_error_with_its_reason(url: str, shown: str):
    server = seen("engines", shown, [url])
    assert server.state == "error"
    assert "127.0.0.1:1" in server.detail and "secret" not in server.detail
    assert "start" in server.fix


@pytest.mark.parametrize("name", ["pgvector", "milvus"])
def test_a_server_that_answers_is_ok(name, request):
    server = request.getfixturevalue("postgres" if name == "pgvector" else name)
    url = server.url() if name == "pgvector" else server.url
    assert [doctor.examine(*each).state for each in doctor.checks([url])["engines"].items()] == ["ok"]


def test_servers_are_not_tried_unless_named_and_an_unknown_one_is_an_error():
    assert seen("engines", "pgvector").detail.startswith("not tested: surefind doctor --engine pgvector://")
    assert "expected pgvector://user" in seen("engines", "mysql://x", ["mysql://x"]).detail


@pytest.fixture
def arrange(monkeypatch):
    """Replace the checks."""

    def replace(**found: Finding) -> None:
        looks = {name: partial(Finding, *finding) for name, finding in found.items()}
        monkeypatch.setattr(doctor, "checks", lambda urls: {"packages": looks})

    return replace


def test_findings_are_aligned_and_a_fix_has_its_own_line(surefind, arrange):
    escape = Finding("ok", "2.6\x1b[2J")
    arrange(torch=escape, long_name=Finding("absent", "not there", "pip install it"))
    done = surefind("doctor")
    lines = [line.rstrip() for line in done.out.splitlines()]
    assert done.code == 0
    assert "  long_name  --    not there" in lines
    assert f"{' ' * 19}fix: pip install it" in lines
    assert lines[-1] == "everything required works"
    assert "\x1b[2J" not in done.out


def test_errors_are_named_at_the_end_and_fail_the_command(surefind, arrange):
    arrange(torch=Finding("ok", "2.6"), timm=Finding("error", "gone", "pip install timm"))
    done = surefind("doctor")
    assert (done.code, done.out.splitlines()[-1]) == (1, "failed: timm")
    done = surefind("doctor", "--json")
    facts = json.loads(done.out)
    assert (done.code, facts["ok"]) == (1, False)
    assert facts["packages"][1] == {
        "name": "timm", "state": "error", "detail": "gone", "fix": "pip install timm"
    }  # fmt: skip
