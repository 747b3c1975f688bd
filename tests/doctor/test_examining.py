"""What the doctor sees, and what it says where something is wrong."""

import os
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from surefind.doctor import engines, extras, machine, packages, places
from surefind.doctor.examining import is_broken
from surefind.doctor.finding import Finding, fine, tried
from surefind.errors import SurefindError

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def found(findings: list[Finding], what: str) -> Finding:
    return next(finding for finding in findings if finding.what == what)


def names(requirements: list[str]) -> set[str]:
    """Without their versions: psycopg[binary]>=3.2 is psycopg."""
    return {line.split(">")[0].split("[")[0] for line in requirements}


def test_what_is_needed_is_what_the_project_says():
    needed = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    assert {*packages.NEEDED, "torchvision"} == names(needed)


def test_extras_are_those_of_the_project():
    known = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert {name: set(extra.packages) for name, extra in extras.EXTRAS.items()} == {
        name: names(lines) for name, lines in known.items() if name != "dev"
    }


def test_a_package_that_cannot_be_loaded_is_broken_and_the_others_are_looked_at(monkeypatch):
    monkeypatch.setattr(packages, "NEEDED", {"rich": "rich", "gone": "gone_indeed"})
    seen = packages.packages()
    assert found(seen, "rich") == fine("rich", metadata.version("rich"))
    assert found(seen, "gone").state == "broken"
    assert found(seen, "gone").fix == "pip install --force-reinstall gone"


def test_a_missing_extra_is_told_with_the_command_that_installs_it(monkeypatch):
    few = {"x": extras.Extra("dreaming", {"rich": "rich", "pillow-talk": "pillow_talk"})}
    monkeypatch.setattr(extras, "EXTRAS", few)
    assert extras.extras() == [
        Finding(
            "x", "absent", "pillow_talk not installed; for dreaming", "pip install 'surefind[x]'"
        )
    ]


def test_more_threads_than_the_container_allows_are_a_hindrance(monkeypatch):
    monkeypatch.setattr(machine, "cores_allowed", lambda: 0.5)
    monkeypatch.setattr("torch.get_num_threads", lambda: 8)
    cores = found(machine.machine(), "cores")
    assert (cores.state, cores.fix) == ("poor", "export OMP_NUM_THREADS=1")


def test_little_memory_is_a_hindrance(monkeypatch):
    monkeypatch.setattr(machine, "memory_left", lambda: (2**30, 2**20))
    memory = found(machine.machine(), "memory")
    assert memory.state == "poor"
    assert "the container allows 1.0 GB, 1 MB of it left" in memory.seen


def test_a_cache_that_cannot_be_written_is_told_with_the_variable_that_moves_it(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub" / "deeper"))
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    seen = places.places()
    hub = found(seen, "weights of the hub")
    assert (hub.state, hub.fix) == ("poor", "export HF_HOME=FOLDER")
    assert found(seen, "temporary files").state == "fine"
    assert not (tmp_path / "hub").exists()


def test_fonts_of_the_glyphs_are_tried():
    assert "16 faces" in found(places.places(), "fonts of glyphs").seen


def test_faiss_is_tried_and_servers_are_not_unless_named():
    faiss, pgvector, milvus = engines.engines()
    assert faiss.state == "fine" and "100 of 100" in faiss.seen
    assert pgvector.seen.startswith("not asked: surefind doctor --engine pgvector://")
    assert milvus.state == "absent"


def test_a_faiss_that_finds_the_wrong_vectors_is_broken(monkeypatch):
    from surefind.engines.embedded.vectors import faiss

    class Wrong(faiss.IndexFlatL2):
        def search(self, vectors, k):
            distance, rows = super().search(vectors, k)
            return distance, rows[::-1]

    monkeypatch.setattr(faiss, "IndexFlatL2", Wrong)
    assert engines.engines()[0].state == "broken"


@pytest.mark.parametrize("url", ["pgvector://me:secret@127.0.0.1:1/db", "milvus://127.0.0.1:1"])
def test_a_server_that_does_not_answer_is_broken_and_says_why(url: str):
    server = engines.engines([url])[1]
    assert server.what == url.partition(":")[0]
    assert server.state == "broken"
    assert "127.0.0.1:1" in server.seen and "secret" not in server.seen
    assert "start" in server.fix


def test_an_engine_that_is_none_is_told_with_an_example():
    assert "--engine pgvector://" in found(engines.engines(["mysql://x"]), "engine").fix


def test_only_what_is_needed_is_a_reason_to_fail():
    poor, absent = Finding("a", "poor", ""), Finding("b", "absent", "")
    assert not is_broken({"x": [poor], "y": [absent, fine("c", "")]})
    assert is_broken({"x": [poor], "y": [Finding("d", "broken", "")]})


def test_an_error_with_a_remedy_keeps_it():
    def look() -> Finding:
        raise SurefindError("empty", fix="fill it")

    assert tried("cup", look, fix="other") == Finding("cup", "broken", "empty", "fill it")
