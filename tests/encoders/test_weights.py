"""Weights from files: safetensors of the right architecture, and nothing else."""

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from surefind.encoders.backbone import build_backbone, load_weights
from surefind.errors import InvalidFile


@pytest.fixture
def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))


def test_half_precision_becomes_float32(net, tmp_path):
    path = tmp_path / "half.safetensors"
    wanted = {name: torch.rand_like(t.float()).half() for name, t in net.state_dict().items()}
    save_file(wanted, path)
    load_weights(net, path, ignore=lambda name: name.endswith("num_batches_tracked"))
    assert net[0].weight.dtype == torch.float32
    assert torch.equal(net[0].weight, wanted["0.weight"].float())
    assert net[1].num_batches_tracked == 0


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
