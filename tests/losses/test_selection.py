"""Which triplets a loss looks at, and what it says about wrong ones."""

import numpy as np
import pytest
import torch
from pytorch_metric_learning import miners
from pytorch_metric_learning.utils.loss_and_miner_utils import convert_to_triplets, get_all_triplets_indices
from sampling import Draw

import surefind as sf

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 3])
LOSSES = [sf.losses.BayesianTripletLoss(), sf.losses.TripletLoss(), sf.losses.TripletRegressionLoss()]


@pytest.mark.parametrize(
    "miner",
    [
        miners.TripletMarginMiner(margin=0.2, type_of_triplets="all"),
        miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard"),
        miners.BatchHardMiner(),
        miners.BatchEasyHardMiner(),
        miners.MultiSimilarityMiner(),
        miners.PairMarginMiner(),
        miners.DistanceWeightedMiner(),
    ],
    ids=lambda miner: type(miner).__name__,
)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_a_miner_of_pytorch_metric_learning_drops_in(miner, loss, draw: Draw):
    batch = draw.spheres(len(LABELS), 6).as_gaussians().to(torch.float32)
    torch.manual_seed(0)
    mined = miner(batch.mean, LABELS)
    assert len(mined[0]) > 0
    a, p, n = convert_to_triplets(mined, LABELS, t_per_anchor="all")
    wanted = loss(batch, triplets=(a, p, n))
    torch.testing.assert_close(loss(batch, LABELS, mined), wanted)
    torch.testing.assert_close(loss(batch, LABELS, indices_tuple=mined), wanted)


def test_all_triplets_are_those_of_pytorch_metric_learning(draw: Draw):
    batch = draw.gaussians(len(LABELS), 4)
    loss = sf.losses.BayesianTripletLoss()
    indices = get_all_triplets_indices(LABELS)
    assert loss.diagnose(batch, LABELS).triplets == len(indices[0])
    torch.testing.assert_close(loss(batch, LABELS), loss(batch, triplets=tuple(indices)))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3], []], ids=["one class", "one each", "empty"])
def test_without_a_triplet_the_loss_is_zero_with_a_graph(loss, labels: list[int], draw: Draw):
    count = len(labels)
    mean = torch.randn(count, 3, generator=draw.generator).requires_grad_()
    var = torch.ones(count, requires_grad=True)
    value = loss(sf.Gaussians(mean, var), torch.tensor(labels, dtype=torch.long))
    assert value.item() == 0
    value.backward()
    assert torch.equal(mean.grad, torch.zeros(count, 3))
    assert torch.equal(var.grad, torch.zeros(count))
    info = loss.diagnose(sf.Gaussians(mean, var), torch.tensor(labels, dtype=torch.long))
    assert info.triplets == 0


def test_an_empty_miners_tuple_is_no_triplet(draw: Draw):
    empty = torch.zeros(0, dtype=torch.long)
    batch = draw.gaussians(4, 3)
    for mined in ((empty,) * 3, (empty,) * 4):
        assert sf.losses.BayesianTripletLoss()(batch, None, mined).item() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "labels: expected labels or triplets, got neither"),
        ({"labels": [0, 0, 1]}, "labels: expected 4 values, one per row, got shape .3,"),
        ({"labels": torch.zeros(4, 1, dtype=torch.long)}, "labels: expected 4 values"),
        ({"labels": [[0], [0, 1]]}, "labels: expected an array, a list or a tensor"),
        ({"labels": torch.zeros(4)}, "labels: expected integers or texts, got float32"),
        ({"triplets": (torch.tensor([0]),) * 2}, "triplets: expected a tuple of 3 index tensors"),
        ({"triplets": torch.zeros(3, 2)}, "triplets: expected a tuple of 3 index tensors"),
        ({"triplets": (torch.tensor([0.0]),) * 3}, "triplets: expected one-dimensional integer"),
        ({"triplets": (torch.tensor([4]),) * 3}, "triplets: expected indices from 0 to 3, got 4"),
        ({"triplets": (torch.tensor([-1]),) * 3}, "triplets: expected indices from 0 to 3, got -1"),
        (
            {"triplets": (torch.tensor([0, 1]), torch.tensor([1]), torch.tensor([2, 3]))},
            "triplets: expected index tensors of one length, got 2 and 1",
        ),
        ({"indices_tuple": (torch.tensor([0]),) * 5}, "indices_tuple: expected a tuple of 3 or 4"),
    ],
)
def test_wrong_labels_and_triplets_are_refused_by_name(arguments: dict, message: str, draw: Draw):
    with pytest.raises(sf.InvalidArgument, match=message):
        sf.losses.BayesianTripletLoss()(draw.gaussians(4, 3), **arguments)


def test_wrong_settings_are_refused_by_name(draw: Draw):
    with pytest.raises(sf.InvalidArgument, match="method: expected one of clt, saddlepoint, exact"):
        sf.losses.BayesianTripletLoss(method="normal")
    with pytest.raises(sf.InvalidArgument, match="sphere: expected one of exact, gaussian"):
        sf.losses.BayesianTripletLoss(sphere="paper")
    with pytest.raises(sf.InvalidArgument, match="floor: expected a probability below 1"):
        sf.losses.BayesianTripletLoss(floor=-1.0)
    for loss in (type(loss) for loss in LOSSES):
        with pytest.raises(sf.InvalidArgument, match="margin: expected a finite number, got nan"):
            loss(margin=float("nan"))
        with pytest.raises(sf.InvalidArgument, match="margin: expected a finite number, got 'a'"):
            loss(margin="a")  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidArgument, match="kl_scale: expected 0 or more, got -1"):
        sf.losses.BayesianTripletLoss(kl_scale=-1)
    with pytest.raises(sf.InvalidArgument, match="pooling: expected one of sum, image"):
        sf.losses.TripletRegressionLoss(pooling="mean")
    with pytest.raises(sf.InvalidArgument, match="embeddings: expected Gaussians or VonMisesFisher"):
        sf.losses.BayesianTripletLoss()(torch.zeros(4, 3), torch.zeros(4, dtype=torch.long))
    with pytest.raises(sf.InvalidArgument, match="'clt' or 'saddlepoint'"):
        sf.losses.BayesianTripletLoss(method="exact")(draw.spheres(4, 3), torch.tensor([0, 0, 1, 1]))


@pytest.mark.parametrize("labels", [[3, 3, 5, 5], np.array([3, 3, 5, 5], np.int16), ["x", "x", "y", "y"]])
def test_labels_may_be_a_list_an_array_or_texts(labels: object, draw: Draw):
    loss, batch = sf.losses.BayesianTripletLoss(), draw.gaussians(4, 3)
    assert loss(batch, labels) == loss(batch, torch.tensor([0, 0, 1, 1]))


def test_triplets_may_be_lists_or_arrays(draw: Draw):
    loss, batch = sf.losses.BayesianTripletLoss(), draw.gaussians(4, 3)
    wanted = loss(batch, triplets=[torch.tensor([0, 2]), torch.tensor([1, 3]), torch.tensor([2, 0])])
    assert loss(batch, triplets=([0, 2], np.array([1, 3], np.int32), np.array([2, 0]))) == wanted
