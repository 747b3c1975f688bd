"""Where this process embeds images."""

import os

import torch


def own_device() -> str:
    """A GPU if there is one; of torchrun's processes each takes its own."""
    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"
