"""Model folders: what is saved is what is loaded, or nothing is."""

import errno
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from surefind.encoders import Encoder, EncoderConfig, build_backbone
from surefind.errors import InvalidFile
from surefind.images.preprocess import Preprocessing
from surefind.storage import dump_checksummed_json, load_checksummed_json


@pytest.fixture
def saved(tiny, tmp_path) -> Path:
    tiny().save(tmp_path / "model")
    return tmp_path / "model"


def edit(folder: Path, change) -> None:
    path = folder / "config.json"
    facts = load_checksummed_json(path)
    change(facts)
    path.write_bytes(dump_checksummed_json(facts))


@pytest.mark.parametrize("family", ["gaussian", "von-mises-fisher", "point"])
def test_a_saved_encoder_gives_bit_equal_embeddings(tiny, pictures, tmp_path, family):
    encoder = tiny(family=family, head_dropout=0.1, preprocessing=Preprocessing(size=40, resize="pad"))
    encoder.save(tmp_path)
    loaded = Encoder.load(tmp_path)
    assert loaded.config == encoder.config and loaded.fingerprint == encoder.fingerprint
    assert not loaded.training
    before, after = encoder.encode(pictures), loaded.encode(pictures)
    assert torch.equal(before.mean, after.mean) and torch.equal(before.spread, after.spread)


def test_a_backbone_with_batch_norm_is_saved_whole(tmp_path):
    encoder = Encoder.create(EncoderConfig(backbone="mobilenetv2_100", dim=8))
    encoder(torch.rand(4, 3, 64, 64))  # moves the running statistics
    encoder.save(tmp_path)
    assert Encoder.load(tmp_path).fingerprint == encoder.fingerprint


def test_saving_again_replaces_the_model_and_nothing_else(tiny, saved):
    (saved / "run").mkdir()
    (saved / "run" / "log").write_text("kept")
    tiny(seed=5).save(saved)
    assert Encoder.load(saved).fingerprint == tiny(seed=5).fingerprint
    assert (saved / "run" / "log").read_text() == "kept"
    assert sorted(p.name for p in saved.iterdir()) == ["README.md", "config.json", "model.safetensors", "run"]


class Stopped(BaseException):
    """As if the process ended here."""


@pytest.mark.parametrize("stop_at", range(9))
def test_whenever_saving_stops_the_old_or_the_new_model_is_whole(tiny, saved, monkeypatch, stop_at):
    old, new = tiny().fingerprint, tiny(seed=1).fingerprint
    steps, real = iter(range(100)), {"fsync": os.fsync, "replace": Path.replace}

    def step(name: str):
        def run(*arguments):
            if next(steps) == stop_at:
                raise Stopped
            return real[name](*arguments)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", step("fsync"))
        patch.setattr(Path, "replace", step("replace"))
        try:
            tiny(seed=1).save(saved)
        except Stopped:
            assert stop_at < 7
        else:
            assert stop_at >= 7
    found = Encoder.load(saved).fingerprint
    assert found == (old if stop_at < 4 else new)
    tiny(seed=2).save(saved)  # whatever was left over does not disturb
    assert Encoder.load(saved).fingerprint == tiny(seed=2).fingerprint


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written_is_one_clear_error(tiny, saved, monkeypatch, code):
    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(InvalidFile, match=f"cannot write.*{os.strerror(code)}"):
            tiny(seed=1).save(saved)
    assert Encoder.load(saved).fingerprint == tiny().fingerprint
    assert not list(saved.glob("*.split")) and not list(saved.glob(".*"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f["config"].update(backbone="os.system"), "known name, such as tiny"),
        (lambda f: f["config"].update(dim="16"), "dim: expected"),
        (lambda f: f["config"].update(dims=3), "did you mean 'dim'"),
        (lambda f: f.update(schema=1), "has schema 1"),
    ],
)
def test_a_configuration_of_another_version_is_refused(saved, change, message):
    edit(saved, change)
    with pytest.raises(InvalidFile, match=f"(?s){message}"):
        Encoder.load(saved)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(InvalidFile, match="holds no model"):
        Encoder.load(tmp_path)
    (tmp_path / "config.json").mkdir()
    with pytest.raises(InvalidFile, match="cannot be read"):
        Encoder.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("log_scale"), "1 missing"),
        (lambda t: t.update(log_scale=torch.tensor(1e-6)), "does not belong"),
        (lambda t: t.update(log_scale=t["log_scale"].half()), "does not belong"),
    ],
)
def test_changed_weights_are_refused(saved, change, message):
    tensors = load_file(saved / "model.safetensors")
    change(tensors)
    save_file(tensors, saved / "model.safetensors")
    with pytest.raises(InvalidFile, match=message):
        Encoder.load(saved)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_flipped_bit_is_found(saved, name):
    path = saved / name
    content = path.read_bytes()
    generator = torch.Generator().manual_seed(0)
    for place in torch.randint(8 * min(len(content), 6000), (60,), generator=generator).tolist():
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(InvalidFile):
            Encoder.load(saved)


def test_loading_never_downloads(saved, monkeypatch):
    asked = []

    def build(name: str, **options):
        asked.append((options["pretrained"], options["weights"]))
        return build_backbone(name, **options)

    monkeypatch.setattr("surefind.encoders.encoder.build_backbone", build)
    Encoder.load(saved)
    assert asked == [(False, None)]
