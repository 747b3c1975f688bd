"""Batches of embeddings: what they refuse, how they are cut, joined and stored."""

import dataclasses

import numpy as np
import pytest
import torch
from sampling import Draw

import surefind as sf
from surefind.vectors.reader import read_vectors

MEAN, ONES = torch.zeros(3, 4), torch.ones(3)
UNIT = torch.eye(3, 4)


def at(tensor: torch.Tensor, value: float) -> torch.Tensor:
    """The same tensor with one entry replaced."""
    changed = tensor.clone()
    changed.view(-1)[1] = value
    return changed


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30, -1e30])
def test_a_mean_that_is_not_a_usable_number_is_refused(value: float):
    with pytest.raises(sf.InvalidArgument, match="mean: expected finite numbers"):
        sf.Gaussians(at(MEAN, value), ONES)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0, 1e30, 1e-30])
def test_a_spread_that_is_not_positive_and_finite_is_refused(value: float):
    with pytest.raises(sf.InvalidArgument, match="var: expected positive numbers"):
        sf.Gaussians(MEAN, at(ONES, value))
    with pytest.raises(sf.InvalidArgument, match="kappa: expected positive numbers"):
        sf.VonMisesFisher(UNIT, at(ONES, value))


@pytest.mark.parametrize(
    ("mean", "var", "message"),
    [
        (torch.zeros(4), ONES, r"mean: expected shape \(N, D\), got shape \(4,\)"),
        (torch.zeros(3, 0), ONES, "mean: expected at least one dimension"),
        (MEAN, torch.ones(3, 1), r"var: expected shape \(N,\), got shape \(3, 1\)"),
        (MEAN, torch.ones(2), "var: expected 3 values, one per mean, got 2"),
        (MEAN.bfloat16(), ONES.bfloat16(), "mean: expected float32 or float64, got bfloat16"),
        (MEAN.long(), ONES, "mean: expected float32 or float64, got int64"),
        (MEAN, ONES.double(), "var: expected the dtype of mean"),
        ([[0.0], [0.0, 1.0]], ONES, "mean: expected an array, a list or a tensor of numbers"),
        (MEAN, ["a"], "var: expected an array, a list or a tensor of numbers, got list"),
    ],
)
def test_wrong_shapes_and_types_are_refused_by_name(mean, var, message: str):
    with pytest.raises(sf.InvalidArgument, match=message):
        sf.Gaussians(mean, var)


def test_means_on_the_sphere_must_be_unit_vectors():
    with pytest.raises(sf.InvalidArgument, match="unit vectors.*\n.*normalize"):
        sf.VonMisesFisher(2 * UNIT, ONES)
    with pytest.raises(sf.InvalidArgument, match="at least 2 dimensions"):
        sf.VonMisesFisher(torch.ones(3, 1), ONES)


def test_a_batch_cannot_be_changed(draw: Draw):
    batch = draw.gaussians(3, 4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.mean = batch.mean  # type: ignore[misc]


def test_rows_are_taken_by_number_slice_list_and_mask(draw: Draw):
    batch = draw.spheres(5, 3)
    assert (len(batch), batch.dim) == (5, 3)
    for rows, count in ((2, 1), (-1, 1), (slice(1, 4), 3), ([0, 4], 2), (batch.kappa > 0, 5)):
        part = batch[rows]
        assert len(part) == count
        wanted = batch.mean[[rows]] if isinstance(rows, int) else batch.mean[rows]
        assert torch.equal(part.mean, wanted)
    assert len(batch[[]]) == 0
    assert [len(row) for row in batch] == [1] * 5  # iterating ends
    with pytest.raises(IndexError):
        batch[5]


def test_gradients_flow_through_rows_and_stop_at_detach(draw: Draw):
    mean = draw.gaussians(3, 4).mean.requires_grad_()
    batch = sf.Gaussians(mean, torch.ones(3, dtype=torch.float64))
    batch[1:].mean.sum().backward()
    assert mean.grad is not None
    assert mean.grad.sum() == 8
    assert not batch.detach().mean.requires_grad


def test_cat_joins_batches_of_one_kind(draw: Draw):
    first, second = draw.gaussians(2, 4), draw.gaussians(3, 4)
    joined = sf.Gaussians.cat([first, second])
    assert torch.equal(joined.mean, torch.cat([first.mean, second.mean]))
    with pytest.raises(sf.InvalidArgument, match="batches: expected only Gaussians"):
        sf.Gaussians.cat([first, draw.spheres(2, 4)])
    with pytest.raises(sf.InvalidArgument, match="4 dimensions"):
        sf.Gaussians.cat([first, draw.gaussians(2, 5)])
    with pytest.raises(sf.InvalidArgument, match="at least one batch"):
        sf.Gaussians.cat([])


def test_the_papers_reading_of_kappa_is_an_inverse_variance(draw: Draw):
    batch = draw.spheres(3, 4)
    assert torch.equal(batch.as_gaussians().var, 1 / batch.kappa)


@pytest.mark.parametrize("name", ["batch.safetensors", "batch.npz"])
@pytest.mark.parametrize("family", ["gaussians", "spheres"])
def test_a_saved_batch_comes_back_bit_by_bit(draw: Draw, family: str, name: str, tmp_path):
    batch = getattr(draw, family)(5, 7)
    batch.save(tmp_path / name, about={"fingerprint": "abc"})
    loaded = sf.Embeddings.load(tmp_path / name)
    assert type(loaded) is type(batch)
    assert torch.equal(loaded.mean, batch.mean)
    assert torch.equal(loaded.spread, batch.spread)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_loading_says_what_is_wrong_with_a_file(draw: Draw, kind: str, tmp_path):
    path = tmp_path / f"batch.{kind}"
    with pytest.raises(sf.InvalidFile, match="does not exist"):
        sf.Gaussians.load(path)
    path.write_bytes(b"not a tensor")
    with pytest.raises(sf.InvalidFile, match=f"not a readable {kind} file"):
        sf.Gaussians.load(path)
    draw.spheres(2, 3).save(path)
    with pytest.raises(sf.InvalidFile, match=r"'von-mises-fisher' embeddings, not Gaussians"):
        sf.Gaussians.load(path)


def test_a_stored_nan_is_refused_on_loading(tmp_path):
    from safetensors.torch import save_file

    broken = {"mean": torch.full((2, 3), float("nan")), "var": torch.ones(2)}
    save_file(broken, tmp_path / "nan.safetensors", {"family": "gaussian"})
    with pytest.raises(sf.InvalidArgument, match="mean"):
        sf.Gaussians.load(tmp_path / "nan.safetensors")
    np.savez(tmp_path / "part.npz", vectors=MEAN.numpy(), family="gaussian")
    with pytest.raises(sf.InvalidFile, match="holds the tensors"):
        sf.Gaussians.load(tmp_path / "part.npz")


def test_saving_where_it_cannot_leaves_the_old_file(draw: Draw, tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(sf.InvalidFile, match="cannot write"):
        draw.gaussians(2, 3).save(tmp_path / "taken")
    with pytest.raises(sf.InvalidFile, match="cannot write"):
        draw.gaussians(2, 3).save(tmp_path / "missing" / "batch.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_vectors_of_a_saved_npz_are_read(draw: Draw, tmp_path):
    batch = draw.gaussians(5, 7).to(torch.float32)
    batch.save(tmp_path / "batch.npz")
    assert np.array_equal(read_vectors(tmp_path / "batch.npz").values, batch.numpy())


def test_means_become_arrays(draw: Draw):
    batch = draw.gaussians(3, 4)
    batch = sf.Gaussians(batch.mean.requires_grad_(), batch.var)
    assert np.array_equal(np.asarray(batch), batch.mean.detach().numpy())
    assert np.asarray(batch, dtype=np.float32).dtype == np.float32
    assert np.array_equal(batch.numpy(), np.asarray(batch))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, int])
def test_arrays_become_float32_unless_they_are_float64(dtype: type):
    batch = sf.Gaussians(np.ones((3, 4), dtype)[::-1], [1, 2, 3])
    wanted = torch.float64 if dtype is np.float64 else torch.float32
    assert batch.mean.dtype == batch.var.dtype == wanted
    assert sf.Gaussians([[0.0, 1.0]], [0.5]).mean.dtype == torch.float32


def test_a_batch_is_described_in_one_line_and_a_small_table(draw: Draw):
    batch = sf.Gaussians(np.zeros((10_000, 64), np.float32), np.linspace(0.5, 2, 10_000))
    assert repr(batch) == "Gaussians(rows=10000, dim=64, var=0.5..2, dtype=float32)"
    assert "<td>10000</td>" in batch._repr_html_()
    assert len(batch._repr_html_()) < 500
    assert repr(sf.VonMisesFisher(UNIT, ONES)[[]]).startswith("VonMisesFisher(rows=0, dim=4")
