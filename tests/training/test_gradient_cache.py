"""Gradient caching gives the gradient of the whole batch, whatever the chunks."""

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize, softplus

import surefind as sf
from surefind.distributed import ProcessGroup
from surefind.training.gradient_cache import _rng_states, _set_rng_states, backward, in_pieces


class Net(nn.Module):
    def __init__(self, family: type[sf.Embeddings], dropout: float = 0.0) -> None:
        super().__init__()
        self.family = family
        self.body = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Dropout(dropout), nn.Linear(32, 9))

    def forward(self, inputs: torch.Tensor) -> sf.Embeddings:
        out = self.body(inputs)
        spread = softplus(out[:, -1]) + 0.1
        return self.family(normalize(out[:, :-1], dim=1), spread)


def gradients(net: Net, inputs: torch.Tensor, labels: torch.Tensor, chunk: int):
    net.zero_grad()
    loss = sf.losses.BayesianTripletLoss()
    torch.manual_seed(5)
    value, embeddings = backward(net, inputs, lambda e: loss(e, labels), chunk=chunk, group=ProcessGroup(), module=net)
    return value, embeddings, [parameter.grad.clone() for parameter in net.parameters()]


@pytest.mark.parametrize("family", [sf.Gaussians, sf.VonMisesFisher])
@pytest.mark.parametrize("chunk", [1, 5, 8, 23])
def test_chunks_do_not_change_the_gradient(family, chunk: int):
    torch.manual_seed(0)
    net = Net(family).double()
    inputs, labels = torch.randn(24, 6).double(), torch.arange(24) // 4
    whole = gradients(net, inputs, labels, 0)
    pieces = gradients(net, inputs, labels, chunk)
    assert torch.allclose(whole[0], pieces[0], rtol=1e-12)
    assert torch.allclose(whole[1].mean, pieces[1].mean)
    for one, other in zip(whole[2], pieces[2], strict=True):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-14)


def test_pieces_with_their_graphs_do_not_change_the_gradient():
    torch.manual_seed(0)
    net = Net(sf.Gaussians).double()
    inputs, labels = torch.randn(24, 6).double(), torch.arange(24) // 4
    whole = gradients(net, inputs, labels, 0)[2]
    net.forward = in_pieces(net.forward, 5)
    for one, other in zip(whole, gradients(net, inputs, labels, 0)[2], strict=True):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-14)


def test_dropout_falls_the_same_way_in_both_passes():
    """Else what the loss saw would not be what is differentiated."""
    torch.manual_seed(0)
    net = Net(sf.Gaussians, dropout=0.5).double()
    inputs, labels = torch.randn(24, 6).double(), torch.arange(24) // 4
    seen = []

    def embed(piece):
        seen.append(net(piece))
        return seen[-1]

    loss = sf.losses.BayesianTripletLoss()
    backward(embed, inputs, lambda e: loss(e, labels), chunk=8, group=ProcessGroup(), module=net)
    for first, second in zip(seen[:3], seen[3:], strict=True):
        assert torch.equal(first.mean, second.mean)


def test_memory_needs_one_chunk_of_graph_only():
    """At no time are two chunks' graphs alive."""
    alive = 0
    most = 0

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            nonlocal alive, most
            if torch.is_grad_enabled() or x.requires_grad:
                alive += 1
                most = max(most, alive)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            nonlocal alive
            alive -= 1
            return grad

    torch.manual_seed(0)
    net = Net(sf.Gaussians)

    def embed(piece):
        if not torch.is_grad_enabled():
            return net(piece)
        out = net(piece)
        return sf.Gaussians(Counted.apply(out.mean), out.spread)

    loss = sf.losses.BayesianTripletLoss()
    labels = torch.arange(24) // 4
    inputs = torch.randn(24, 6)
    backward(embed, inputs, lambda e: loss(e, labels), chunk=6, group=ProcessGroup(), module=net)
    assert most == 1


def test_batch_norm_counts_each_chunk_once():
    torch.manual_seed(0)
    net, once = Net(sf.Gaussians), nn.BatchNorm1d(32)
    net.body.insert(1, nn.BatchNorm1d(32))
    inputs, labels = torch.randn(24, 6), torch.arange(24) // 4
    for piece in inputs.split(8):
        once(net.body[0](piece))
    gradients(net, inputs, labels, 8)
    assert net.body[1].num_batches_tracked == 3
    torch.testing.assert_close(net.body[1].running_mean, once.running_mean)
    torch.testing.assert_close(net.body[1].running_var, once.running_var)
    assert net.body[1].track_running_stats


def test_the_generator_of_another_device_is_restored_with_the_cpus(monkeypatch):
    """Dropout on a GPU draws from the GPU's own generator."""

    class Device:
        state = torch.zeros(1)

        def get_rng_state(self, device):
            return self.state.clone()

        def set_rng_state(self, state, device):
            self.state = state

    gpu = Device()
    monkeypatch.setattr(torch, "get_device_module", lambda device: gpu)
    before = _rng_states(torch.device("cuda"))
    gpu.state = torch.ones(1)
    torch.rand(1)
    _set_rng_states(torch.device("cuda"), before)
    assert gpu.state == 0
    assert torch.equal(torch.get_rng_state(), before[0])
