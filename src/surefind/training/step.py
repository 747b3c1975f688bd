"""One gradient: of a loss over a whole batch, embedded in pieces, by one process or many."""

from collections.abc import Callable

import torch
from torch import Tensor

from surefind.embeddings import Embeddings
from surefind.training.world import World

Embed = Callable[[Tensor], Embeddings]
Loss = Callable[[Embeddings], Tensor]


def backward(
    embed: Embed, inputs: Tensor, loss: Loss, *, chunk: int, world: World
) -> tuple[Tensor, Embeddings]:
    """Add the gradient of loss(embed(all inputs)) to the parameters; the loss and the embeddings.

    `inputs` are this process's share of the batch. When they are more than one chunk, or there is
    more than one process, the batch is first embedded without a graph, the loss is taken on all of
    it, and each chunk is embedded once more to pass its part of the gradient on (gradient
    caching): memory is that of one chunk and the gradient is the same.
    """
    if world.size == 1 and (chunk == 0 or len(inputs) <= chunk):
        embeddings = embed(inputs)
        value = loss(embeddings)
        value.backward()
        return value.detach(), embeddings.detach()
    chunks = inputs.split(chunk or max(1, len(inputs)))
    dice, parts = [], []
    for piece in chunks:
        dice.append(torch.get_rng_state())  # dropout falls the same way the second time
        with torch.no_grad():
            parts.append(embed(piece))
    ours = type(parts[0]).cat(parts)
    everyone = world.gather(ours)
    mean, spread = (t.detach().requires_grad_() for t in (everyone.mean, everyone.spread))
    value = loss(everyone.replace(mean, spread))
    slopes = torch.autograd.grad(value, (mean, spread), materialize_grads=True, allow_unused=True)
    first = world.first_row(len(ours))
    after = torch.get_rng_state()
    for piece, state in zip(chunks, dice, strict=True):
        torch.set_rng_state(state)
        again = embed(piece)
        rows = slice(first, first + len(piece))
        pairs = ((again.mean, slopes[0][rows]), (again.spread, slopes[1][rows]))
        wanted = [(output, slope) for output, slope in pairs if output.requires_grad]
        torch.autograd.backward([output for output, _ in wanted], [slope for _, slope in wanted])
        first += len(piece)
    torch.set_rng_state(after)
    return value.detach(), everyone.detach()
