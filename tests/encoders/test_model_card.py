"""Model card: front matter, text, and edits of the author that are kept."""

from pathlib import Path

import pytest
from huggingface_hub import EvalResult, ModelCard, metadata_load

from surefind.encoders import Encoder, EncoderConfig
from surefind.encoders.backbone import Backbone, build_backbone
from surefind.encoders.hub import HubId, Measured, pack
from surefind.encoders.serialization import write_export
from surefind.errors import InvalidFile

NAME = HubId("birds/encoder")
HOSTILE = "a|b\n## Limits\n<script>x</script> [c](d) `e` \x1b[31m \u202e \udc80 {0}"


@pytest.fixture
def measured() -> Measured:
    result = EvalResult("image-feature-extraction", "owls", "owls", "recall_at_1", 0.6)
    result.metric_name = "R@1"
    return Measured([result], "| R@1 | 0.600 (0.550 to 0.650) |")


@pytest.fixture
def saved(tiny, tmp_path: Path) -> Path:
    encoder: Encoder = tiny()
    encoder.trained_with = frozenset({"00", "01", "02"})
    encoder.save(tmp_path / "model", card={"data set": "owls", "steps": 300})
    return tmp_path / "model"


def shared(folder: Path, measured: Measured | None = None) -> ModelCard:
    files, _ = pack(folder, NAME, measured=measured)
    return ModelCard(bytes(files["README.md"]).decode())


def test_the_front_matter_is_what_the_hub_reads(saved):
    front = metadata_load(saved / "README.md")
    assert front["library_name"] == "surefind"
    assert front["pipeline_tag"] == "image-feature-extraction"
    assert "image-retrieval" in front["tags"]
    assert not {"license", "base_model", "model-index"} & set(front)


def test_the_card_tells_preprocessing_training_and_limits(saved):
    text = (saved / "README.md").read_text()
    for told in ("preprocessing: size | 32", "- steps: 300", "trained on 3 classes", "Not measured"):
        assert told in text
    assert "surefind calibrate" in text


def test_metrics_reach_the_hub_and_the_reader(saved, measured):
    card = shared(saved, measured)
    assert card.data.eval_results == measured.results and card.data.model_name == "encoder"
    assert measured.text in card.text and "Not measured" not in card.text
    (saved / "README.md").write_text("# My model\n")
    assert shared(saved, measured).text.endswith(f"## Metrics\n\n{measured.text}\n")


def test_a_card_is_shared_with_what_its_author_added(saved, measured):
    path = saved / "README.md"
    text = path.read_text().replace("tags:", "license: mit\ndatasets:\n- a/b\ntags:\n- owls")
    assert not pack(saved, NAME)[1]
    path.write_text(text.replace("- steps: 300", "- steps: 300\n\nDrawn by hand."))
    card = shared(saved, measured)
    assert card.data.license == "mit" and card.data.datasets == ["a/b"]
    assert card.data.tags[:2] == ["owls", "surefind"]
    assert "Drawn by hand." in card.text
    assert pack(saved, NAME)[1]


def test_a_card_written_without_front_matter_gets_one(saved):
    (saved / "README.md").write_text("# My model\n")
    card = shared(saved)
    assert card.data.library_name == "surefind" and card.text.strip() == "# My model"
    (saved / "README.md").unlink()
    assert "# tiny encoder" in shared(saved).text


@pytest.mark.parametrize("front", ["a: [b", "- a", "a: b: c"])
def test_front_matter_that_is_no_yaml_is_one_clear_error(saved, front):
    (saved / "README.md").write_text(f"---\n{front}\n---\n# Mine\n")
    with pytest.raises(InvalidFile, match=r"front matter of the model card"):
        pack(saved, NAME)


def test_hostile_names_stay_words(tiny, tmp_path):
    tiny().save(tmp_path, card={HOSTILE: HOSTILE})
    text = (tmp_path / "README.md").read_text()
    assert text.count("\n## Limits\n") == 1
    for mark in ("<script>", "[c](d)", "\x1b", "\u202e"):
        assert mark not in text


def test_what_a_card_told_of_the_training_survives_loading_and_saving(saved, tmp_path):
    Encoder.load(saved).save(tmp_path / "again")
    assert (tmp_path / "again" / "README.md").read_text() == (saved / "README.md").read_text()


def test_a_card_of_other_weights_is_written_anew(saved, tmp_path):
    encoder = Encoder.load(saved)
    encoder.mean_head.linear.weight.data.mul_(2)
    encoder.save(tmp_path / "again")
    assert encoder.fingerprint in (tmp_path / "again" / "README.md").read_text()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"---\nbase_model: [\n---\n"])
def test_a_strange_card_does_not_stop_a_model_from_loading_and_saving(saved, content, tmp_path):
    (saved / "README.md").write_bytes(content)
    Encoder.load(saved).save(tmp_path / "again")
    assert metadata_load(tmp_path / "again" / "README.md")["library_name"] == "surefind"
    (saved / "README.md").unlink()
    Encoder.load(saved)


def test_a_base_model_is_named_only_if_its_weights_were_downloaded(tmp_path, monkeypatch):
    published = "timm/resnet50.a1_in1k"

    def build(name: str, **_: object) -> Backbone:
        backbone = build_backbone(name, pretrained=False)
        backbone.model.pretrained_cfg = {"hf_hub_id": published}
        return backbone

    monkeypatch.setattr("surefind.encoders.encoder.build_backbone", build)
    config = EncoderConfig("tiny", dim=16)
    assert Encoder.create(config, pretrained=True, weights="w").base_model == ""
    Encoder.create(config, pretrained=True).save(tmp_path)
    assert metadata_load(tmp_path / "README.md")["base_model"] == published


def test_only_files_of_the_model_are_packed(saved):
    (saved / "run").mkdir()
    for name in ("run/state.pt", "photo.jpg", ".secret", "onnx.txt"):
        (saved / name).write_text("not to be shared")
    write_export(saved, Encoder.load(saved).fingerprint, {"fp32": (b"exported", {})})
    (saved / "onnx" / "photo.jpg").write_text("not to be shared")
    model = {"README.md", "config.json", "model.safetensors", "classes.json"}
    assert set(pack(saved, NAME)[0]) == model
    exported = {f"onnx/{path.name}" for path in (saved / "onnx").glob("*[nx]")}
    assert set(pack(saved, NAME, onnx=True)[0]) == model | exported and len(exported) == 2
