"""Backbones by name, their weights from a file or a download, and the import of torchvision."""

import pickle
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from surefind.encoders import backbone as module
from surefind.encoders.backbone import build_backbone, default_preprocessing, known_backbones, load_weights
from surefind.errors import InvalidArgument, InvalidFile, SurefindError


def features_of(name: str, *, size: int, **options) -> torch.Tensor:
    backbone = build_backbone(name, pretrained=False, **options).eval()
    with torch.inference_mode():
        return backbone(torch.rand(1, 3, size, size))


def test_the_small_backbone_needs_no_timm():
    script = (
        "import sys, surefind.encoders as e\n"
        "e.Encoder.create(e.EncoderConfig(backbone='tiny', dim=8))\n"
        "print({'timm', 'torchvision'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.parametrize(
    ("name", "size", "shape"),
    [
        ("tiny", 32, (1, 128, 4, 4)),
        ("mobilenetv2_100", 64, (1, 1280, 2, 2)),
        ("densenet121", 64, (1, 1024, 2, 2)),
        ("convnext_atto", 64, (1, 320, 2, 2)),  # channels first
        ("swin_tiny_patch4_window7_224", 224, (1, 768, 7, 7)),  # channels last
        ("vit_tiny_patch16_224", 224, (1, 192, 196, 1)),  # one class token
        ("deit_tiny_distilled_patch16_224", 224, (1, 192, 196, 1)),  # two other tokens
    ],
)
def test_every_kind_of_network_gives_a_map_of_features(name, size, shape):
    assert features_of(name, size=size).shape == shape


def test_class_tokens_are_left_out():
    backbone = build_backbone("vit_tiny_patch16_224", pretrained=False, size=32).eval()
    pixels = torch.rand(2, 3, 32, 32)
    tokens = backbone.model.forward_features(pixels)
    assert torch.equal(backbone(pixels)[:, :, :, 0], tokens[:, 1:].transpose(1, 2))


def test_a_network_without_one_map_is_refused():
    backbone = build_backbone("crossvit_tiny_240", pretrained=False).eval()
    with pytest.raises(InvalidArgument, match="one map of 288 features"):
        backbone(torch.rand(1, 3, 240, 240))


def test_resnet_v1_has_its_stride_in_the_first_convolution():
    model = build_backbone("resnet50_v1", pretrained=False).model
    for stage in (model.layer2, model.layer3, model.layer4):
        assert stage[0].conv1.stride == (2, 2) and stage[0].conv2.stride == (1, 1)


def test_preprocessing_is_that_of_the_published_weights():
    vit = default_preprocessing("vit_tiny_patch16_224")
    assert (vit.size, vit.resize, vit.crop_share, vit.mean) == (224, "crop", 0.9, (0.5, 0.5, 0.5))
    assert default_preprocessing("tiny").size == 32
    assert default_preprocessing("volo_d5_512").crop_share == 1.0  # timm's 1.15 enlarges


@pytest.mark.parametrize(
    "name", ["os.system", "hf-hub:timm/resnet50", "local-dir:/tmp/model", "timm/resnet50", "../tiny", "", "RESNET50"]
)
def test_only_names_of_the_table_are_taken(name):
    with pytest.raises(InvalidArgument, match="expected a known name, such as"):
        build_backbone(name, pretrained=False)


def test_an_unknown_name_gets_the_nearest_known_ones():
    with pytest.raises(InvalidArgument, match="resnet50"):
        build_backbone("resnet5o", pretrained=False)
    assert {"tiny", "resnet50_v1", "resnet50", "resnet50.a1_in1k"} <= set(known_backbones())


def test_local_weights_are_loaded_without_their_classifier(tmp_path):
    source = build_backbone("convnext_atto", pretrained=False)
    weights = {name: tensor.half() for name, tensor in source.model.state_dict().items()}
    weights["head.fc.weight"] = torch.rand(1000, 320)
    save_file(weights, tmp_path / "w.safetensors")
    loaded = build_backbone("convnext_atto", pretrained=True, weights=tmp_path / "w.safetensors")
    for name, tensor in loaded.model.state_dict().items():
        assert torch.equal(tensor, weights[name].float()), name


def test_counters_of_training_steps_may_be_missing_or_of_another_shape(tmp_path):
    source = build_backbone("mobilenetv2_100", pretrained=False)
    weights = dict(source.model.state_dict())
    counters = [name for name in weights if name.endswith("num_batches_tracked")]
    weights[counters[0]] = torch.ones(1)
    del weights[counters[1]]
    save_file(weights, tmp_path / "w.safetensors")
    build_backbone("mobilenetv2_100", pretrained=False, weights=tmp_path / "w.safetensors")


@pytest.mark.parametrize("name", ["tiny", "resnet50_v1"])
def test_weights_that_nobody_publishes_cannot_be_asked_for(name):
    with pytest.raises(InvalidArgument, match="no weights are published"):
        build_backbone(name, pretrained=True)


@pytest.fixture
def empty_hub(monkeypatch, tmp_path):
    """A hub that cannot be reached, and nothing kept from earlier downloads."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return constants


@pytest.mark.parametrize("asked_to_be_offline", [False, True])
def test_without_a_network_pretrained_weights_fail_soon_and_with_remedies(empty_hub, monkeypatch, asked_to_be_offline):
    monkeypatch.setattr(empty_hub, "HF_HUB_OFFLINE", asked_to_be_offline)
    known_backbones()  # importing timm is not what is timed
    start = time.monotonic()
    with pytest.raises(SurefindError, match=r"(?s)cannot download.*hf download timm/mobilenetv2_100.*--weights FILE"):
        build_backbone("mobilenetv2_100", pretrained=True)
    assert time.monotonic() - start < 5
    assert empty_hub.HF_HUB_OFFLINE is asked_to_be_offline


def test_a_hub_that_answers_is_asked_for_the_weights(empty_hub, monkeypatch):
    asked = []
    timm = module._timm()
    real = timm.create_model

    def create(name: str, **options):
        asked.append((options.pop("pretrained", False), empty_hub.HF_HUB_OFFLINE))
        return real(name, **options)

    class Answers:
        def head(self, url: str, *, timeout: float) -> None:
            assert url == empty_hub.ENDPOINT and timeout <= 5

    monkeypatch.setattr(empty_hub, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(timm, "create_model", create)
    monkeypatch.setattr("huggingface_hub.get_session", Answers)
    build_backbone("convnext_atto", pretrained=True)
    assert asked == [(True, False)]


@pytest.fixture
def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("0.weight"), r"of 7 tensors 1 missing \(such as 0.weight\)"),
        (lambda w: w.update({"2.weight": torch.ones(1)}), r"1 unknown \(such as 2.weight\)"),
        (lambda w: w.update({"0.bias": torch.ones(5)}), r"0.bias: \(5,\), expected \(4,\)"),
    ],
)
def test_weights_of_another_architecture_are_refused(net, tmp_path, change, message):
    path, weights = tmp_path / "other.safetensors", dict(net.state_dict())
    before = net[0].weight.clone()
    change(weights)
    save_file(weights, path)
    with pytest.raises(InvalidFile, match="another architecture.*" + message):
        load_weights(net, path)
    assert torch.equal(net[0].weight, before)


def test_numbers_that_are_not_finite_are_refused(net, tmp_path):
    path, weights = tmp_path / "nan.safetensors", dict(net.state_dict())
    save_file(weights | {"0.bias": torch.tensor([0, torch.nan, 0, 0])}, path)
    with pytest.raises(InvalidFile, match="not finite, in 0.bias"):
        load_weights(net, path)


class Canary:
    """Unpickling it creates a file: what a malicious checkpoint would do."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.bin", "model.safetensors"])
@pytest.mark.parametrize("save", [torch.save, lambda x, path: path.write_bytes(pickle.dumps(x))])
def test_a_pickle_is_never_unpickled_whatever_its_name(tmp_path, name, save):
    canary = tmp_path / "canary"
    save({"stages.0.0.weight": Canary(canary)}, tmp_path / name)
    with pytest.raises(InvalidFile, match=r"(?s)not a readable safetensors.*can run code"):
        build_backbone("tiny", pretrained=False, weights=tmp_path / name)
    assert not canary.exists()


def test_a_missing_file_and_a_folder_are_refused(net, tmp_path):
    for path in (tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(InvalidFile):
            load_weights(net, path)


def failing_with(monkeypatch, errors: list[Exception]) -> ModuleType:
    """An import that raises these errors, one per attempt, and then succeeds."""
    found = ModuleType("torchvision")
    attempts = iter(errors)

    def attempt(name: str) -> ModuleType:
        for error in attempts:
            raise error
        return found

    modules = {"torchvision.ops": found, "torchvisionary": found}
    monkeypatch.setattr(module, "import_module", attempt)
    monkeypatch.setattr(module, "sys", SimpleNamespace(modules=modules))
    return found


def missing(name: str) -> RuntimeError:
    return RuntimeError(f"operator torchvision::{name} does not exist")


def test_missing_operators_are_declared_one_after_the_other(monkeypatch, caplog):
    found = failing_with(monkeypatch, [missing("guard_first"), missing("guard_second")])
    with caplog.at_level("INFO", logger="surefind"):
        assert module.import_torchvision() is found
    assert [record.args[0] for record in caplog.records] == ["guard_first", "guard_second"]
    assert set(module.sys.modules) == {"torchvisionary"}


@pytest.mark.parametrize("error", [RuntimeError("broken"), ImportError("not installed")])
def test_any_other_failure_is_passed_on(monkeypatch, error):
    failing_with(monkeypatch, [error])
    with pytest.raises(type(error), match=str(error)):
        module.import_torchvision()
