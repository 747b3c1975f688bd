"""Models on the hub: what is pushed is what is loaded, and every failure says what to do."""

import sys
from pathlib import Path

import pytest
import torch
from hub_server import OF_THE_LIBRARY, TOKEN, Hub, a_hub  # noqa: F401 - a fixture
from huggingface_hub import ModelCard, constants

from surefind.encoders import Encoder
from surefind.encoders.hub import read_hub_id
from surefind.errors import InvalidArgument, InvalidFile, SurefindError

NAME = "birds/encoder"
pytestmark = pytest.mark.filterwarnings(OF_THE_LIBRARY)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return tmp_path / "empty"


@pytest.fixture
def pushed(tiny, hub: Hub, nowhere) -> Encoder:
    encoder: Encoder = tiny()
    encoder.push_to_hub(NAME, card={"data set": "birds"})
    hub.asked.clear()
    return encoder


def test_what_is_pushed_is_what_is_loaded(tiny, pictures, hub, nowhere):
    encoder = tiny(seed=3)
    encoder.trained_with = frozenset({"0123456789abcdef"})
    url = encoder.push_to_hub(NAME, card={"data set": "birds"})
    assert url == f"{hub.address}/{NAME}"
    loaded = Encoder.load(NAME)
    assert torch.equal(loaded.encode(pictures).mean, encoder.encode(pictures).mean)
    assert torch.equal(loaded.encode(pictures).spread, encoder.encode(pictures).spread)
    assert loaded.fingerprint == encoder.fingerprint
    assert loaded.trained_with == encoder.trained_with
    assert "- data set: birds" in loaded.card


def test_only_the_model_is_uploaded_and_in_one_commit(tiny, hub, nowhere):
    tiny().push_to_hub(NAME)
    assert sorted(hub.files(NAME)) == ["README.md", "config.json", "model.safetensors"]
    assert sum("/commit/" in asked for asked in hub.asked) == 1
    card = ModelCard(hub.files(NAME)["README.md"].decode())
    assert card.data.library_name == "surefind"
    assert f'Encoder.load("{NAME}")' in card.text


def test_only_the_needed_files_are_downloaded(pushed, hub):
    files = hub.files(NAME) | {"notes.pkl": b"code", "run/log.csv": b"", "onnx/model.onnx": b""}
    hub.commit(NAME, "main", files)
    Encoder.load(NAME)
    fetched = {asked.rpartition("/")[2] for asked in hub.asked if "/resolve/" in asked}
    assert fetched == {"README.md", "config.json", "model.safetensors"}


def test_a_second_push_replaces_the_first_and_keeps_what_others_added(tiny, pushed, hub):
    hub.commit(NAME, "main", hub.files(NAME) | {"classes.json": b"[]", "LICENSE": b"free"})
    tiny(seed=1).push_to_hub(NAME)
    assert set(hub.files(NAME)) == {"README.md", "config.json", "model.safetensors", "LICENSE"}
    assert Encoder.load(NAME).fingerprint == tiny(seed=1).fingerprint


def test_a_revision_is_pushed_and_loaded_by_name(tiny, pushed, hub):
    url = tiny(seed=1).push_to_hub(f"{NAME}@v2")
    assert url == f"{hub.address}/{NAME}/tree/v2"
    assert Encoder.load(NAME).fingerprint == pushed.fingerprint
    assert Encoder.load(f"{NAME}@v2").fingerprint == tiny(seed=1).fingerprint


def test_a_private_model_is_loaded_by_those_who_may(tiny, hub, nowhere, monkeypatch):
    tiny().push_to_hub(NAME, private=True)
    assert Encoder.load(NAME).fingerprint == tiny().fingerprint
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(nowhere / "other"))
    with pytest.raises(SurefindError, match=r"(?s)holds no model.*private.*hf auth login"):
        Encoder.load(NAME)


def test_a_folder_is_loaded_without_a_look_at_the_hub(tiny, pushed, hub, nowhere):
    tiny(seed=1).save(NAME)
    assert Encoder.load(NAME).fingerprint == tiny(seed=1).fingerprint
    assert Encoder.load(Path(NAME)).fingerprint == tiny(seed=1).fingerprint
    assert hub.asked == []
    assert Encoder.load(f"hf://{NAME}").fingerprint == pushed.fingerprint


def test_a_mistyped_folder_is_told_as_one(pushed, hub, nowhere):
    with pytest.raises(InvalidFile, match=r"holds no model: there is no such folder, and it could not"):
        Encoder.load("models/brids")
    (nowhere / "models").mkdir()
    hub.asked.clear()
    with pytest.raises(InvalidFile, match=r"(?s)models/brids holds no model.*hf://models/brids"):
        Encoder.load("models/brids")
    with pytest.raises(InvalidFile, match="birds holds no model"):
        Encoder.load("./models/birds")
    with pytest.raises(InvalidFile, match="encoder holds no model"):
        Encoder.load(Path(NAME))
    assert hub.asked == []


def test_without_a_network_the_cache_is_used(pushed, hub, monkeypatch):
    Encoder.load(NAME)
    hub.asked.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert Encoder.load(NAME).fingerprint == pushed.fingerprint
    assert hub.asked == []
    with pytest.raises(InvalidFile, match=r"holds no model.*HF_HUB_OFFLINE"):
        Encoder.load("birds/other")


def test_a_hub_that_is_not_there_is_one_clear_error(tiny, pushed, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InvalidFile, match=r"holds no model.*[Cc]onnect"):
        Encoder.load(NAME)
    with pytest.raises(SurefindError, match="cannot upload to.*[Cc]onnect"):
        tiny().push_to_hub(NAME)


def test_a_wrong_token_is_one_clear_error_that_does_not_show_it(tiny, pushed, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong-secret")
    for attempt in (lambda: Encoder.load(NAME), lambda: tiny().push_to_hub(NAME)):
        with pytest.raises(SurefindError, match="401") as told:
            attempt()
        assert "secret" not in str(told.value)


def test_without_a_token_nothing_is_pushed(tiny, pushed, hub, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(SurefindError, match=r"not logged in.*\n.*hf auth login"):
        tiny().push_to_hub(NAME)
    assert hub.asked == []


def test_a_push_that_fails_at_its_end_changes_no_file(tiny, pushed, hub):
    before = dict(hub.files(NAME))
    hub.failing["/commit/"] = 500
    with pytest.raises(SurefindError, match="cannot upload to birds/encoder: .*500"):
        tiny(seed=1).push_to_hub(NAME)
    assert hub.files(NAME) == before


def test_a_download_that_comes_short_is_one_clear_error_and_can_be_repeated(pushed, hub):
    hub.shorten = 7
    with pytest.raises(SurefindError, match="could not be downloaded"):
        Encoder.load(NAME)
    hub.shorten = 0
    assert Encoder.load(NAME).fingerprint == pushed.fingerprint


def test_a_model_damaged_on_the_hub_is_refused(pushed, hub):
    files = dict(hub.files(NAME))
    files["model.safetensors"] = files["model.safetensors"][:-1] + b"\x01"
    hub.commit(NAME, "main", files)
    with pytest.raises(InvalidFile, match=r"birds/encoder from the hub is not a valid model"):
        Encoder.load(NAME)


def test_models_of_other_libraries_are_refused(hub, nowhere):
    hub.create("others/one", {"config.json": b'{"architecture": "resnet50"}'})
    hub.create("others/two", {"pytorch_model.bin": b"pickle"})
    with pytest.raises(InvalidFile, match="not a valid model of surefind"):
        Encoder.load("others/one")
    with pytest.raises(InvalidFile, match=r"holds no model of surefind: config.json is missing"):
        Encoder.load("others/two")
    assert not any("pytorch_model" in asked for asked in hub.asked)


@pytest.mark.parametrize(
    "text", ["encoder", "a/b/c", "../a", "a/..", "a--b/c", ".a/b", "a/b.", "a b/c", "a/b@", "a/b\n"]
)
def test_what_is_no_name_on_the_hub_is_not_taken_for_one(text: str, tiny):
    assert read_hub_id(text) is None
    with pytest.raises(InvalidArgument, match="expected owner/name"):
        tiny().push_to_hub(text)


def test_a_folder_needs_no_library_of_the_hub(tiny, tmp_path, monkeypatch):
    tiny().save(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert Encoder.load(str(tmp_path)).fingerprint == tiny().fingerprint
