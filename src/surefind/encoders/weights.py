"""Tensors from safetensors files into a module; nothing else, no pickle, is ever read."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from surefind.errors import InvalidFile


def load_weights(
    module: nn.Module, path: Path, *, ignore: Callable[[str], bool] = lambda _: False
) -> None:
    """Copy a file's tensors into a module, which must have the same names and shapes.

    Half-precision tensors become the module's own type. Names that `ignore` accepts are left out.
    """
    wanted = module.state_dict()
    found = read_tensors(path, wanted, ignore=ignore)
    with torch.no_grad():
        for name, tensor in found.items():
            wanted[name].copy_(tensor)


def read_tensors(
    path: Path, wanted: Mapping[str, Tensor], *, ignore: Callable[[str], bool] = lambda _: False
) -> dict[str, Tensor]:
    """The tensors of a file, once their names and shapes are known to be the wanted ones."""
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {
                name: tuple(file.get_slice(name).get_shape())
                for name in file.keys()  # noqa: SIM118
                if not ignore(name)
            }
            needed = {name: tuple(t.shape) for name, t in wanted.items() if not ignore(name)}
            _check_shapes(path, shapes, needed)
            tensors = {name: file.get_tensor(name) for name in shapes}
    except (FileNotFoundError, IsADirectoryError) as error:
        raise InvalidFile(f"{path} is not there or not a file", fix="check the path") from error
    except (OSError, SafetensorError) as error:
        raise InvalidFile(
            f"{path} is not a readable safetensors file: {error}",
            fix="only safetensors are read, since pickle files (.pt, .pth, .bin) can run code: "
            "convert one you trust with safetensors.torch.save_file(state_dict, path)",
        ) from error
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise InvalidFile(
                f"{path} holds numbers that are not finite, in {name}",
                fix="use the weights of an earlier, healthy state",
            )
    return tensors


def _check_shapes(
    path: Path, found: dict[str, tuple[int, ...]], wanted: dict[str, tuple[int, ...]]
) -> None:
    missing = [n for n in wanted if n not in found]
    unknown = [n for n in found if n not in wanted]
    other = [n for n in found if n in wanted and found[n] != wanted[n]]
    if not (missing or unknown or other):
        return
    parts = []
    if missing:
        parts.append(f"{len(missing)} missing (such as {missing[0]})")
    if unknown:
        parts.append(f"{len(unknown)} unknown (such as {unknown[0]})")
    if other:
        name = other[0]
        shapes = f"{found[name]}, expected {wanted[name]}"
        parts.append(f"{len(other)} of another shape (such as {name}: {shapes})")
    raise InvalidFile(
        f"{path} holds weights of another architecture: of {len(wanted)} tensors "
        + ", ".join(parts),
        fix="name the backbone that the weights were made for, with timm's names for its tensors",
    )
