"""An upgrade at work: vectors stay as they are, are indexed, searched, saved and read again."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from stores import change_documents

import surefind as sf
from surefind.encoders.encoder import POINT_VAR
from surefind.search.folder import UPGRADE_FILE
from surefind.storage import Documents
from surefind.vectors.upgrade import FACTS


@pytest.fixture
def folder(upgrade, tmp_path) -> Path:
    upgrade.save(tmp_path / "upgrade")
    return tmp_path / "upgrade"


@pytest.fixture
def index(upgrade, known, tmp_path):
    with upgrade.index(tmp_path / "index", known.vectors, labels=known.labels) as made:
        yield made


def verdicts(index: sf.Index, query: sf.Gaussians) -> list[tuple]:
    return [(result.verdict, result.confidence) for result in index.search(query)]


# vectors and their variance


@pytest.mark.parametrize(
    "given_as",
    [
        lambda values: values,
        torch.from_numpy,
        lambda values: values.astype(np.float64),
        lambda values: values.astype(">f4"),
        lambda values: values.tolist(),
    ],
)
def test_vectors_are_the_means_bit_for_bit(upgrade, fresh, given_as):
    embedded = upgrade.embed(given_as(fresh.vectors.copy()))
    assert embedded.mean.dtype == torch.float32
    assert embedded.mean.numpy().tobytes() == fresh.vectors.tobytes()


def test_without_learned_variance_all_vectors_are_points_and_hits_have_a_confidence(plain, known, fresh, tmp_path):
    embedded = plain.embed(fresh.vectors)
    assert embedded.var.unique().tolist() == [pytest.approx(POINT_VAR)]
    with plain.index(tmp_path / "index", known.vectors) as index:
        sure = [confidence for _, confidence in verdicts(index, embedded[:50])]
    assert all(0 < confidence < 1 for confidence in sure)
    assert np.ptp(sure) > 0.1


# an index


def test_clear_queries_match_and_those_far_away_do_not(index, upgrade, known):
    clear = known.noise < 0.4
    called = [one[0] for one in verdicts(index, upgrade.embed(known.vectors[clear]))]
    assert called.count("match") > 0.8 * len(called)
    far = [one[0] for one in verdicts(index, upgrade.embed(known.vectors + 1000))]
    assert set(far) == {"no_match"}


def test_ids_labels_and_metadata_are_kept(upgrade, known, tmp_path):
    facts = [{"year": 2000 + row % 20} for row in range(360)]
    with upgrade.index(
        tmp_path / "index", known.vectors, ids=np.arange(360) + 7, labels=known.labels, metadata=facts
    ) as index:
        hits = [result.hits[0] for result in index.search(upgrade.embed(known.vectors), k=1)]
    assert [hit.id for hit in hits] == [str(row + 7) for row in range(360)]
    assert [dict(hit.metadata) for hit in hits] == [
        {**fact, "label": str(label)} for fact, label in zip(facts, known.labels, strict=True)
    ]


def test_a_label_that_is_missing_is_no_label(upgrade, known, tmp_path):
    labels = [None, float("nan"), "", *known.labels[3:]]
    with upgrade.index(tmp_path / "index", known.vectors, labels=labels) as index:
        results = index.search(upgrade.embed(known.vectors[:4]), k=1)
        assert [dict(result.hits[0].metadata) for result in results] == [{}, {}, {}, {"label": "0"}]
        assert index.calibrate(learn_variance=False).origin.queries == 357


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ids": ["a"]}, "as many ids as embeddings"),
        ({"ids": ["a"] * 360}, "an id twice"),
        ({"labels": [1, 2]}, "labels: expected 360, one per vector, got 2"),
        ({"metadata": [{}]}, "as many ids as embeddings, digests and metadata"),
        ({"vectors": np.ones((360, 3), np.float32)}, r"\(N, 16\), got shape \(360, 3\)"),
    ],
)
def test_what_cannot_be_indexed_leaves_no_folder_behind(upgrade, known, tmp_path, wrong, message):
    with pytest.raises(sf.InvalidArgument, match=message):
        upgrade.index(tmp_path / "index", **{"vectors": known.vectors} | wrong)
    assert not (tmp_path / "index").exists()


def test_an_index_opened_later_finds_its_upgrade(index, upgrade, fresh, tmp_path):
    assert index.calibration == upgrade.calibration
    wanted = verdicts(index, upgrade.embed(fresh.vectors))
    assert all(0 < confidence < 1 for _, confidence in wanted)
    index.close()
    found = sf.Upgrade.of_index(tmp_path / "index")
    with sf.Index.open(tmp_path / "index") as opened:
        assert opened.fingerprint == found.fingerprint == upgrade.fingerprint
        assert verdicts(opened, found.embed(fresh.vectors)) == wanted


# a folder


@pytest.mark.parametrize("which", ["upgrade", "plain"])
def test_what_is_saved_is_read(request, which, known, fresh, tmp_path):
    made = request.getfixturevalue(which)
    made.save(tmp_path / "saved")
    found = sf.Upgrade.load(tmp_path / "saved")
    assert found.dim == made.dim
    assert found.fingerprint == made.fingerprint
    assert found.calibration == made.calibration
    ours, theirs = made.embed(fresh.vectors), found.embed(fresh.vectors)
    assert torch.equal(ours.mean, theirs.mean)
    assert torch.equal(ours.var, theirs.var)
    with made.index(tmp_path / "a", known.vectors) as first, found.index(tmp_path / "b", known.vectors) as second:
        assert verdicts(first, ours) == verdicts(second, theirs)


def test_a_folder_tells_nothing_about_the_vectors_it_was_made_with(folder, known):
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert known.vectors[0].tobytes() not in content
    assert len(sf.Upgrade.load(folder).calibrated.density) == 0
    assert [path.name for path in folder.iterdir()] == [UPGRADE_FILE]


@pytest.mark.parametrize("name", [FACTS, "calibration.heads"])
def test_damage_is_found_and_a_folder_that_is_no_upgrade_refused(folder, name, tmp_path):
    change_documents(folder / UPGRADE_FILE, "UPDATE documents SET content = content || x'20'", name)
    with pytest.raises(sf.InvalidFile, match=f"(?s)no whole upgrade: .*{name}.*upgrade the vectors again"):
        sf.Upgrade.load(folder)
    with pytest.raises(sf.InvalidFile, match="holds no upgrade: upgrade.db is missing"):
        sf.Upgrade.load(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schema": 99}, "schema 99, this version reads 1"),
        ({"dim": 17}, "parts belong to different upgrades"),
        ({"fingerprint": "0" * 64}, "another index"),
    ],
)
def test_a_description_of_something_else_is_refused(folder, changed, message):
    documents = Documents(folder / UPGRADE_FILE)
    facts = json.loads(documents.read(FACTS)[FACTS])
    documents.write({FACTS: json.dumps(facts | changed).encode()})
    with pytest.raises(sf.InvalidFile, match=f"(?s){message}.*upgrade the vectors again"):
        sf.Upgrade.load(folder)
