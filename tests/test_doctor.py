"""What the doctor finds, and what it says where something is wrong."""

import os
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from surefind import doctor
from surefind.doctor import Finding
from surefind.errors import SurefindError

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def found(findings: list[Finding], what: str) -> Finding:
    return next(finding for finding in findings if finding.what == what)


def test_every_extra_has_a_purpose():
    assert {*doctor.EXTRAS, "dev"} == {*PROJECT["optional-dependencies"]}


def test_requirements_are_those_of_the_project_and_of_an_extra(monkeypatch):
    lines = ["rich>=13", "psycopg[binary]>=3.2; extra == 'pg'", 'milvus; extra == "pg"']
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    assert doctor.required() == ["rich"]
    assert doctor.required("pg") == ["psycopg", "milvus"]


def test_a_package_that_cannot_be_loaded_is_broken_and_the_others_are_looked_at(monkeypatch):
    monkeypatch.setattr(doctor, "required", lambda: ["gone", "timm", "rich"])
    seen = doctor.packages()
    assert found(seen, "gone").state == "broken"
    assert found(seen, "gone").fix == "pip install --force-reinstall gone"
    assert found(seen, "timm").state == "fine"
    assert found(seen, "rich") == Finding("rich", "fine", metadata.version("rich"))


def test_a_missing_extra_is_told_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(doctor, "EXTRAS", {"x": "dreaming"})
    monkeypatch.setattr(doctor, "required", lambda _: ["rich", "pillow-talk"])
    assert doctor.extras() == [
        Finding(
            "x", "absent", "pillow-talk not installed; for dreaming", "pip install 'surefind[x]'"
        )
    ]


@pytest.fixture
def container(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(doctor, "CGROUP", tmp_path)
    return tmp_path


def test_more_threads_than_the_container_allows_are_a_hindrance(container, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 8)
    (container / "cpu.max").write_text("50000 100000\n")
    cores = found(doctor.machine(), "cores")
    assert "the container allows the time of 0.5;" in cores.seen
    assert (cores.state, cores.fix) == ("poor", "export OMP_NUM_THREADS=1")


def test_little_memory_is_a_hindrance(container):
    (container / "memory.max").write_text(f"{2**30}\n")
    memory = found(doctor.machine(), "memory")
    assert memory.state == "poor"
    assert "the container allows 1.0 GB" in memory.seen


def test_a_container_without_limits_is_not_mentioned(container):
    (container / "cpu.max").write_text("max 100000\n")
    (container / "memory.max").write_text("max\n")
    assert not any("container" in finding.seen for finding in doctor.machine())


def test_a_cache_that_cannot_be_written_is_told_with_the_variable_that_moves_it(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("SUREFIND_CACHE", str(tmp_path / "cache" / "deeper"))
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    seen = doctor.places()
    glyphs = found(seen, "drawn glyphs")
    assert (glyphs.state, glyphs.fix) == ("poor", "export SUREFIND_CACHE=FOLDER")
    assert found(seen, "temporary files").state == "fine"
    assert not (tmp_path / "cache").exists()


def test_faiss_is_loaded_and_servers_are_not_tried_unless_named():
    faiss, pgvector, milvus = doctor.engines()
    assert (faiss.state, faiss.seen) == ("fine", metadata.version("faiss-cpu"))
    assert pgvector.seen.startswith("not asked: surefind doctor --engine pgvector://")
    assert milvus.state == "absent"


@pytest.mark.parametrize("url", ["pgvector://me:secret@127.0.0.1:1/db", "milvus://127.0.0.1:1"])
def test_a_server_that_does_not_answer_is_broken_and_says_why(url: str):
    server = doctor.engines([url])[1]
    assert server.what == url.partition(":")[0]
    assert server.state == "broken"
    assert "127.0.0.1:1" in server.seen and "secret" not in server.seen
    assert "start" in server.fix


@pytest.mark.parametrize("name", ["pgvector", "milvus"])
def test_a_server_that_answers_is_fine(name, request):
    server = request.getfixturevalue("postgres" if name == "pgvector" else name)
    url = server.url() if name == "pgvector" else server.url
    assert found(doctor.engines([url]), name).state == "fine"


def test_an_engine_that_is_none_is_told_with_an_example():
    assert "expected pgvector://user" in found(doctor.engines(["mysql://x"]), "engine").seen


def test_an_error_with_a_remedy_keeps_it():
    def look() -> str:
        raise SurefindError("empty", fix="fill it")

    assert doctor.attempt("cup", look, fix="other") == Finding("cup", "broken", "empty", "fill it")
