"""Import torchvision even where its compiled operators do not fit the installed torch."""

import logging
import re
import sys
from importlib import import_module
from types import ModuleType

import torch

_MISSING = re.compile(r"operator torchvision::(\w+) does not exist")
_MOST_OPERATORS = 32  # that are defined before giving up
_defined: list[torch.library.Library] = []  # an operator lives as long as its library


def import_torchvision() -> ModuleType:
    """torchvision; its missing operators are declared when, and only when, the import needs them.

    A CPU torch beside a torchvision built for CUDA finds no compiled operators, and the import
    fails with "operator torchvision::nms does not exist". The Python parts, all that is needed
    here, work once those names are declared; calling such an operator still fails.
    """
    for _ in range(_MOST_OPERATORS):
        try:
            return import_module("torchvision")
        except RuntimeError as error:
            missing = _MISSING.search(str(error))
            if missing is None:
                raise
            _declare(missing[1])
    return import_module("torchvision")


def _declare(operator: str) -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define(f"{operator}() -> ()")
    _defined.append(library)
    # The parts that did load hold on to the failed package: the next attempt starts afresh.
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    logging.getLogger("surefind").info(
        "torchvision lacks its compiled operator %r (built for another torch); declared without it",
        operator,
    )
