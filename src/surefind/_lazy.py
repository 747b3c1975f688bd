"""Public names of a package, imported when they are first used."""

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy_exports(package: str, homes: "Mapping[str, str]") -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return `__getattr__` and `__dir__` of a package whose names are defined in its modules.

    `homes` maps a name to its module; to "" if it is a module itself.
    """

    def get(name: str) -> "Any":
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{homes[name] or name}")
        return getattr(module, name) if homes[name] else module

    return get, lambda: sorted({*vars(sys.modules[package]), *homes})
