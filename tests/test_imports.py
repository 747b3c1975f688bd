"""The house has a direction: what may import what, and what `import surefind` loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import surefind

PACKAGE = Path(surefind.__file__).parent
# Each room with the rooms it may import from.
MAY_IMPORT = {
    "errors": set(),
    "text": set(),
    "validation": {"errors"},
    "settings": {"errors", "validation"},
    "files": {"errors"},
    "storage": {"errors", "files"},
    "embeddings": {"errors", "files"},
    "distributed": {"embeddings"},
    "functional": {"errors", "validation", "embeddings"},
    "metrics": {"errors", "validation", "embeddings"},
    "losses": {"errors", "validation", "embeddings", "functional"},
    "images": {"errors", "validation", "settings"},
    "datasets": {"errors", "validation", "settings", "images"},
    "encoders": {"errors", "validation", "settings", "files", "embeddings", "images"},
}
MAY_IMPORT["training"] = {*MAY_IMPORT, "encoders"}
MAY_IMPORT["engines"] = {"errors", "validation", "files", "storage", "embeddings", "functional"}
MAY_IMPORT["confidence"] = {*MAY_IMPORT["encoders"], "functional", "metrics", "datasets", "losses"}
MAY_IMPORT["confidence"] |= {"encoders", "engines", "storage", "text"}
MAY_IMPORT["search"] = {*MAY_IMPORT["confidence"], "confidence"}
MAY_IMPORT["vectors"] = {*MAY_IMPORT["search"], "search"}
MAY_IMPORT["reports"] = {*MAY_IMPORT["vectors"], "vectors", "training"}
MAY_IMPORT["serve"] = MAY_IMPORT["reports"] - {"training", "losses"} | {"reports"}
MAY_IMPORT["demo"] = {*MAY_IMPORT["reports"], "reports", "serve"}
MAY_IMPORT["cli"] = {*MAY_IMPORT}
MAY_IMPORT["__main__"] = {"cli"}
KNOWN_TO_MATHS = {
    "torch",
    "numpy",
    "math",
    "numbers",
    "typing",
    "collections",
    "dataclasses",
    "functools",
}


def imports(path: Path) -> set[str]:
    """Full names of the modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


FILES = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    rooms = {name.split(".")[1] for name in imports(path) if name.startswith("surefind.")}
    assert rooms - {room} <= MAY_IMPORT[room]


@pytest.mark.parametrize("room", ["functional", "metrics"])
def test_maths_knows_torch_and_numpy_only(room: str):
    for path in (PACKAGE / room).rglob("*.py"):
        outside = {name.split(".")[0] for name in imports(path)} - {"surefind"}
        assert outside <= KNOWN_TO_MATHS, path


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_surefind_loads_nothing_heavy():
    heavy = {"torch", "numpy", "faiss", "matplotlib", "timm", "torchvision", "fastapi", "uvicorn"}
    assert not heavy & loaded_by("import surefind")


def test_using_a_loss_loads_no_search_plotting_or_server():
    heavy = {"faiss", "matplotlib", "timm", "torchvision", "fastapi", "sklearn"}
    assert not heavy & loaded_by("import surefind as sf; sf.losses.BayesianTripletLoss()")


ASK = """
import contextlib, io
from surefind.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
"""


@pytest.mark.parametrize("asked", ["--help", "--version", "search --help"])
def test_asking_for_help_loads_nothing_heavy(asked: str):
    heavy = {
        "torch", "numpy", "scipy", "sklearn", "faiss", "matplotlib", "PIL", "timm", "torchvision",
        "psycopg", "pymilvus", "fastapi", "uvicorn", "jinja2", "onnx", "onnxruntime",
        "huggingface_hub", "pyarrow",
    }  # fmt: skip
    loaded = loaded_by(f"sys.argv = ['surefind', *'{asked}'.split()]{ASK}")
    assert "surefind.cli.commands" in loaded
    assert not heavy & loaded
    if "search" not in asked:  # typer checks values with it
        assert "pydantic" not in loaded


def test_public_names_are_there_and_listed():
    for name in surefind.__all__:
        assert getattr(surefind, name) is not None
        assert name in dir(surefind)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        surefind.nothing  # noqa: B018
