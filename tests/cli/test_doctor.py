"""The findings of surefind doctor, and how they are printed."""

import json
import os
import tomllib
from importlib import import_module, metadata
from pathlib import Path

import pytest

from surefind.cli.doctor import Finding

doctor = import_module("surefind.cli.doctor")
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def found(findings: list[Finding], name: str) -> Finding:
    return next(finding for finding in findings if finding.name == name)


def test_every_extra_has_a_purpose():
    assert {*doctor.EXTRAS, "dev"} == {*PROJECT["optional-dependencies"]}


def test_requirements_are_those_of_the_project_and_of_an_extra(monkeypatch):
    lines = ["rich>=13", "psycopg[binary]>=3.2; extra == 'pg'", 'milvus; extra == "pg"']
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    assert doctor.required() == ["rich"]
    assert doctor.required("pg") == ["psycopg", "milvus"]


def test_a_package_that_cannot_be_imported_is_an_error_and_the_others_are_examined(monkeypatch):
    monkeypatch.setattr(doctor, "required", lambda: ["gone", "timm", "rich"])
    seen = doctor.packages()
    assert found(seen, "gone").state == "error"
    assert found(seen, "gone").fix == "pip install --force-reinstall gone"
    assert found(seen, "timm").state == "ok"
    assert found(seen, "rich") == Finding("rich", "ok", metadata.version("rich"))


def test_a_missing_extra_comes_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(doctor, "EXTRAS", {"x": "dreaming"})
    monkeypatch.setattr(doctor, "required", lambda _: ["rich", "pillow-talk"])
    detail = "pillow-talk not installed; for dreaming"
    assert doctor.extras() == [Finding("x", "absent", detail, "pip install 'surefind[x]'")]


def test_limits_of_the_container_are_warnings_if_they_are_low(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(doctor, "CGROUP", tmp_path)
    monkeypatch.setattr("torch.get_num_threads", lambda: 8)
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.max").write_text(f"{2**30}\n")
    cores, memory = (found(doctor.machine(), name) for name in ("cores", "memory"))
    assert "container limit 0.5;" in cores.detail
    assert (cores.state, cores.fix) == ("warning", "export OMP_NUM_THREADS=1")
    assert memory.state == "warning" and "container limit 1.0 GB" in memory.detail
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert not any("container" in finding.detail for finding in doctor.machine())


def test_a_cache_that_cannot_be_written_comes_with_the_variable_that_moves_it(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("SUREFIND_CACHE", str(tmp_path / "cache" / "deeper"))
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    seen = doctor.folders()
    cache = found(seen, "cache")
    assert (cache.state, cache.fix) == ("warning", "export SUREFIND_CACHE=FOLDER")
    assert found(seen, "temporary files").state == "ok"
    assert not (tmp_path / "cache").exists()


def test_faiss_is_loaded_and_servers_are_not_tried_unless_named():
    faiss, pgvector, milvus = doctor.engines()
    assert (faiss.state, faiss.detail) == ("ok", metadata.version("faiss-cpu"))
    assert pgvector.detail.startswith("not tested: surefind doctor --engine pgvector://")
    assert milvus.state == "absent"


@pytest.mark.parametrize("url", ["pgvector://me:secret@127.0.0.1:1/db", "milvus://127.0.0.1:1"])
def test_a_server_that_does_not_answer_is_an_error_with_its_reason(url: str):
    server = doctor.engines([url])[1]
    assert server.name == url.partition(":")[0]
    assert server.state == "error"
    assert "127.0.0.1:1" in server.detail and "secret" not in server.detail
    assert "start" in server.fix


@pytest.mark.parametrize("name", ["pgvector", "milvus"])
def test_a_server_that_answers_is_ok(name, request):
    server = request.getfixturevalue("postgres" if name == "pgvector" else name)
    url = server.url() if name == "pgvector" else server.url
    assert found(doctor.engines([url]), name).state == "ok"


def test_an_unknown_engine_is_an_error_with_an_example():
    assert "expected pgvector://user" in found(doctor.engines(["mysql://x"]), "engine").detail


@pytest.fixture
def arrange(monkeypatch):
    """Replace the findings."""

    def replace(*findings: Finding) -> None:
        groups = {"packages": list(findings), "machine": []}
        monkeypatch.setattr(doctor, "examine", lambda urls: groups)

    return replace


def test_findings_are_aligned_and_a_fix_has_its_own_line(surefind, arrange):
    escape = Finding("torch", "ok", "2.6\x1b[2J")
    arrange(escape, Finding("long name", "absent", "not there", "pip install it"))
    done = surefind("doctor")
    lines = [line.rstrip() for line in done.out.splitlines()]
    assert done.code == 0
    assert "  --    long name  not there" in lines
    assert f"{' ' * 19}fix: pip install it" in lines
    assert lines[-1] == "everything required works"
    assert "\x1b[2J" not in done.out


def test_errors_are_named_at_the_end_and_fail_the_command(surefind, arrange):
    arrange(Finding("torch", "ok", "2.6"), Finding("timm", "error", "gone", "pip install timm"))
    done = surefind("doctor")
    assert (done.code, done.out.splitlines()[-1]) == (1, "failed: timm")
    done = surefind("doctor", "--json")
    facts = json.loads(done.out)
    assert (done.code, facts["ok"]) == (1, False)
    assert facts["packages"][1] == {
        "name": "timm", "state": "error", "detail": "gone", "fix": "pip install timm"
    }  # fmt: skip
    assert facts["machine"][0]["name"] == "terminal"
