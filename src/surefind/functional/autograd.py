"""A typed door to torch.autograd.Function.apply, which torch leaves untyped."""

from typing import Any

import torch
from torch import Tensor


def call(function: type[torch.autograd.Function], *inputs: Any) -> Tensor:
    """function.apply(*inputs), for functions of one output."""
    result: Tensor = function.apply(*inputs)
    return result
