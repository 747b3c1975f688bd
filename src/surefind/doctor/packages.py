"""The packages that surefind needs: there, and fit to be loaded."""

import platform
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import surefind
from surefind.doctor.finding import Finding, fine, tried

NEEDED = {  # as pip calls them, and as Python does
    "torch": "torch",
    "timm": "timm",
    "numpy": "numpy",
    "scipy": "scipy",
    "scikit-learn": "sklearn",
    "pillow": "PIL",
    "safetensors": "safetensors",
    "faiss-cpu": "faiss",
    "pydantic": "pydantic",
    "huggingface-hub": "huggingface_hub",
    "matplotlib": "matplotlib",
    "jinja2": "jinja2",
    "typer": "typer",
    "rich": "rich",
}


def packages() -> list[Finding]:
    """Python, surefind, and each package that it needs."""
    found = [fine("python", platform.python_version()), fine("surefind", surefind.__version__)]
    for name, module in NEEDED.items():
        found.append(tried(name, partial(_loaded, name, module), fix=_again(name)))
        if name == "torch":
            found.append(tried("torchvision", _torchvision, fix=_again("torchvision")))
    return found


def version_of(name: str) -> str | None:
    """As pip knows it; None if it does not."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _loaded(name: str, module: str) -> Finding:
    loaded = import_module(module)
    return fine(name, version_of(name) or str(getattr(loaded, "__version__", "installed")))


def _torchvision() -> Finding:
    """Whether it fits this torch is known only after it is loaded."""
    from surefind.encoders import torchvision_guard

    torchvision_guard.import_torchvision()
    seen = version_of("torchvision") or "installed"
    undone = len(torchvision_guard._defined)
    if undone:
        seen += f", built for another torch: {undone} of its operators declared, none is needed"
    return fine("torchvision", seen)


def _again(name: str) -> str:
    return f"pip install --force-reinstall {name}"
