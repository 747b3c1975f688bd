"""surefind encode as a user calls it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from calibrations import write_noisy_pictures
from faulty_disk import failing_disk
from safetensors import safe_open

import surefind as sf
from surefind.encoders import Encoder, EncoderConfig
from surefind.images.preprocess import Preprocessing
from surefind.vectors.reader import read_vectors

IMAGES = 20  # of the fixture


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
def test_an_npz_has_ids_vectors_variances_and_labels(surefind, exported: Path, gallery: Path, runtime: str):
    done = surefind("encode", exported, gallery, "-o", "made/images.npz", "--runtime", runtime)
    assert done.code == 0, done.err
    assert f"made/images.npz: {IMAGES} images in " in done.out
    assert "images/s" in done.out
    arrays = np.load("made/images.npz")
    wanted = Encoder.load(exported).encode([gallery / name for name in arrays["ids"]])
    assert np.allclose(arrays["vectors"], wanted.mean, atol=1e-5)
    assert np.allclose(arrays["var"], wanted.spread, rtol=1e-4)
    assert [str(name).split("/")[0] for name in arrays["ids"]] == arrays["labels"].tolist()
    assert arrays["fingerprint"] == Encoder.load(exported).fingerprint


def test_a_safetensors_file_is_read_as_embeddings(surefind, model: Path, gallery: Path):
    surefind("encode", model, gallery, "-o", "images.safetensors")
    found = sf.Embeddings.load("images.safetensors")
    with safe_open("images.safetensors", "pt") as file:
        metadata = file.metadata()
    files = [gallery / name for name in json.loads(metadata["ids"])]
    assert torch.equal(found.mean, Encoder.load(model).encode(files).mean)
    assert len(json.loads(metadata["labels"])) == len(found) == IMAGES


def test_on_the_sphere_the_variance_is_that_of_the_paper(surefind, gallery: Path):
    config = EncoderConfig("tiny", dim=8, family="von-mises-fisher", preprocessing=Preprocessing(size=16))
    Encoder.create(config).save("sphere")
    surefind("encode", "sphere", gallery, "-o", "a.npz")
    surefind("encode", "sphere", gallery, "-o", "a.safetensors")
    assert np.allclose(np.load("a.npz")["var"], 1 / sf.Embeddings.load("a.safetensors").kappa)


def test_a_model_without_variance_writes_none(surefind, gallery: Path):
    config = EncoderConfig("tiny", dim=8, family="point", preprocessing=Preprocessing(size=16))
    Encoder.create(config).save("point")
    surefind("encode", "point", gallery, "-o", "a.npz")
    assert "var" not in np.load("a.npz")


def test_the_file_is_what_upgrade_and_its_index_read(surefind, model: Path, tmp_path: Path):
    write_noisy_pictures(tmp_path / "photos", per_class=8, seed=0)
    surefind("encode", model, "photos", "-o", "photos.npz")
    vectors = read_vectors("photos.npz")
    assert len(vectors) == len(vectors.labels) == 24 * 8
    assert vectors.ids[0] == "class00/0.png"
    assert surefind("upgrade", "photos.npz", "-o", "upgrade").code in (0, 3)  # guaranteed or not
    done = surefind("index", "photos.npz", "--model", "upgrade", "-o", "index", "--json")
    assert json.loads(done.out)["images"] == 24 * 8


def test_unreadable_images_are_skipped_and_too_many_are_an_error(surefind, model: Path, photos: Path):
    (photos / "class01" / "bad.png").write_bytes(b"no picture")
    done = surefind("encode", model, photos, "-o", "a.npz", "--json")
    facts = json.loads(done.out)
    assert facts["images"] == IMAGES
    assert [Path(bad["path"]).name for bad in facts["rejected"]] == ["bad.png"]
    assert "class01/bad.png" not in np.load("a.npz")["ids"]
    for number in range(5):
        (photos / f"bad{number}.png").write_bytes(b"no picture")
    done = surefind("encode", model, photos, "-o", "b.npz")
    assert done.code == 1
    assert "--max-bad-share 1" in done.err
    assert not Path("b.npz").exists()
    done = surefind("encode", model, photos, "-o", "b.npz", "--max-bad-share", 1)
    assert "6 could not be read:" in done.out


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors"])
def test_a_full_disk_leaves_the_older_file(surefind, model: Path, gallery: Path, name: str):
    Path(name).write_bytes(b"older")
    with failing_disk(at=2, on=True):
        done = surefind("encode", model, gallery, "-o", name)
    assert (done.code, Path(name).read_bytes()) == (1, b"older")
    assert [path.name for path in Path().iterdir()] == [name]
