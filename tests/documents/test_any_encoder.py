"""The page on other libraries' models runs, with small random models in place of published ones."""

import json
from pathlib import Path

import pytest
from class_folders import write_pictures
from documents_blocks import ROOT, blocks_of
from safetensors.torch import save_file

import surefind as sf
from surefind.encoders.backbone import build_backbone, import_torchvision

PAGE = ROOT / "docs" / "how-to" / "any-encoder.md"


def write_dinov2(folder: Path) -> None:
    from transformers import BitImageProcessor, Dinov2Config, Dinov2Model

    config = Dinov2Config(hidden_size=384, num_hidden_layers=1, num_attention_heads=2, image_size=28)
    Dinov2Model(config).save_pretrained(folder)
    crop = {"height": 28, "width": 28}
    BitImageProcessor(size={"shortest_edge": 32}, crop_size=crop).save_pretrained(folder)


def write_sentence_transformer(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules.clip_model import CLIPModel as Module
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizer

    small = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    small |= {"num_attention_heads": 2, "projection_dim": 512}
    text = {"vocab_size": 3, "bos_token_id": 0, "eos_token_id": 1}
    config = CLIPConfig(
        text_config=small | text, vision_config=small | {"image_size": 32, "patch_size": 16}, projection_dim=512
    )
    CLIPModel(config).save_pretrained("clip")
    tokens = CLIPTokenizer(vocab={"<|startoftext|>": 0, "<|endoftext|>": 1, "a</w>": 2}, merges=[])
    crop = {"height": 32, "width": 32}
    images = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=crop)
    CLIPProcessor(images, tokens).save_pretrained("clip")
    SentenceTransformer(modules=[Module("clip")]).save(str(folder))


def use_small_open_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    import open_clip

    tower = {"layers": 1, "width": 64}
    config = {
        "embed_dim": 512,
        "vision_cfg": tower | {"image_size": 32, "patch_size": 16},
        "text_cfg": tower | {"context_length": 8, "vocab_size": 8, "heads": 2},
    }
    Path("small").mkdir()
    Path("small", "small-clip.json").write_text(json.dumps(config))
    open_clip.add_model_config("small")
    real = open_clip.create_model_and_transforms
    monkeypatch.setattr(open_clip, "create_model_and_transforms", lambda name, pretrained: real("small-clip"))


@pytest.mark.slow  # importing these libraries takes ten seconds
@pytest.mark.filterwarnings("ignore")
def test_models_of_other_libraries_make_an_index(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    import_torchvision()
    for library in ("open_clip", "transformers", "sentence_transformers"):
        pytest.importorskip(library)
    photos = write_pictures(tmp_path / "photos", classes=4, per_class=5)
    (photos / "class00" / "0.png").rename("query.jpg")
    save_file(build_backbone("mobilenetv2_100", pretrained=False).model.state_dict(), "model.safetensors")
    write_dinov2(Path("facebook/dinov2-small"))
    write_sentence_transformer(Path("clip-ViT-B-32"))
    use_small_open_clip(monkeypatch)
    scope: dict[str, object] = {}
    exec("\n".join(b.text for b in blocks_of(PAGE) if b.language == "python"), scope)
    assert len(scope["result"].hits) == 5
    for number, name in enumerate(("clip", "dinov2", "multimodal")):
        with sf.Index.open(f"index-{number}") as index:
            assert (len(index), index.fingerprint) == (19, scope[name].fingerprint)
