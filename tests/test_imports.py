"""Architecture: direction of imports, no cycles, public names, and what `import surefind` loads."""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import surefind
from surefind.engines.base import Space

PACKAGE = Path(surefind.__file__).parent
# Each package with the packages it may import from.
MAY_IMPORT = {
    "errors": set(),
    "_lazy": set(),
    "_faiss": set(),
    "text": set(),
    "validation": {"errors"},
    "storage": {"errors"},
    "embeddings": {"errors", "storage", "text", "validation"},
    "distributed": {"embeddings"},
    "functional": {"_lazy", "errors", "validation", "embeddings"},
    "metrics": {"_lazy", "errors", "validation", "embeddings"},
    "losses": {"_lazy", "errors", "validation", "embeddings", "functional"},
    "images": {"errors", "validation"},
    "datasets": {"errors", "validation", "images"},
    "encoders": {"errors", "text", "validation", "storage", "embeddings", "images", "datasets"},
}
MAY_IMPORT["training"] = {*MAY_IMPORT, "encoders"}
MAY_IMPORT["engines"] = {"_faiss", "_lazy", "errors", "validation", "storage", "embeddings", "functional"}
MAY_IMPORT["confidence"] = {*MAY_IMPORT["encoders"], "functional", "metrics", "datasets", "losses"}
MAY_IMPORT["confidence"] |= {"_lazy", "encoders", "engines"}
MAY_IMPORT["search"] = {*MAY_IMPORT["confidence"], "confidence"}
MAY_IMPORT["vectors"] = {*MAY_IMPORT["search"], "search"}
MAY_IMPORT["reports"] = {*MAY_IMPORT["vectors"], "vectors", "training"}
MAY_IMPORT["serve"] = MAY_IMPORT["reports"] - {"training", "losses"} | {"reports"}
MAY_IMPORT["demo"] = {*MAY_IMPORT["reports"], "reports", "serve"}
MAY_IMPORT["cli"] = {*MAY_IMPORT}
MAY_IMPORT["__main__"] = {"cli"}
MATHS_MAY_IMPORT = {"surefind", "torch", "numpy"} | sys.stdlib_module_names


def module_name(path: Path) -> str:
    parts = ["surefind", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
PACKAGES = [module_name(path.parent / "__init__.py") for path in PACKAGE.rglob("__init__.py")]


def nodes_of(node: ast.AST, *, typing: bool) -> Iterator[ast.AST]:
    """All nodes below; with `typing=False` without those under TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        if typing or not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            yield child
            yield from nodes_of(child, typing=typing)


def imports(module: str, *, typing: bool = True) -> set[str]:
    """Full names of the modules that a module imports, also inside functions."""
    found = set()
    for node in nodes_of(MODULES[module], typing=typing):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (full & set(MODULES)) or {node.module}
    return found - {module}


def test_packages_import_only_what_they_may():
    wrong = []
    for module in set(MODULES) - {"surefind"}:
        own = module.split(".")[1]
        used = {name.split(".")[1] for name in imports(module) if name.startswith("surefind.")}
        wrong += [f"{module} imports {name}" for name in used - {own} - MAY_IMPORT[own]]
    assert wrong == []


def test_neither_modules_nor_packages_import_in_a_cycle():
    graph = {name: imports(name, typing=False) & set(MODULES) for name in MODULES}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules
    TopologicalSorter(MAY_IMPORT).prepare()


@pytest.mark.parametrize("package", ["functional", "metrics"])
def test_maths_imports_torch_and_numpy_only(package: str):
    for module in MODULES:
        if module.startswith(f"surefind.{package}"):
            assert {name.split(".")[0] for name in imports(module)} <= MATHS_MAY_IMPORT, module


def test_no_public_class_name_is_used_twice():
    classes = [
        node.name
        for tree in MODULES.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name, count in Counter(classes).items() if count > 1} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_exported_names_can_be_imported_and_are_documented(package: str):
    module = import_module(package)
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        assert name in dir(module)
        assert not callable(value) or (value.__doc__ or "").strip(), name
        assert not (value.__doc__ or "").startswith(f"{name}("), f"{name} has a generated docstring"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing  # noqa: B018


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_surefind_loads_nothing_heavy():
    heavy = {"torch", "numpy", "faiss", "matplotlib", "timm", "torchvision", "fastapi", "uvicorn"}
    assert not heavy & loaded_by("import surefind")


def test_using_a_loss_loads_no_search_plotting_or_server():
    heavy = {"faiss", "matplotlib", "timm", "torchvision", "fastapi", "sklearn"}
    assert not heavy & loaded_by("import surefind as sf; sf.losses.BayesianTripletLoss()")


def test_an_index_loads_no_saddlepoint_until_a_radius_is_given():
    assert "surefind.functional.saddlepoint" not in loaded_by("import surefind.search.index")


def test_searching_vectors_loads_no_torch(tmp_path: Path):
    vectors = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    space = Space("gaussian", 8, "mean")
    with surefind.Index.create_empty(tmp_path / "index", space, fingerprint="f" * 64) as index:
        labels = [{"label": str(row % 8)} for row in range(40)]
        index.add_embeddings(index.embed(vectors), [str(row) for row in range(40)], metadata=labels)
        index.calibrate_itself()
        wanted = index.search(vectors[0]).as_dict()
    np.save(tmp_path / "asked.npy", vectors[:1])
    search = f"sys.argv = ['surefind', 'search', {str(tmp_path / 'index')!r}, {str(tmp_path / 'asked.npy')!r}]{MAIN}"
    assert "torch" not in loaded_by(search)
    ask = f"import json, numpy; index = surefind.Index.open({str(tmp_path / 'index')!r}); "
    ask += f"found = index.search(numpy.load({str(tmp_path / 'asked.npy')!r})[0]).as_dict(); "
    ask += "assert 'torch' not in sys.modules; print(json.dumps(found))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, surefind; {ask}"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == json.loads(json.dumps(wanted))


MAIN = """
import contextlib, io
from surefind.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
"""


@pytest.mark.parametrize("arguments", ["--help", "--version", "search --help"])
def test_help_loads_nothing_heavy(arguments: str):
    heavy = {
        "torch", "numpy", "scipy", "sklearn", "faiss", "matplotlib", "PIL", "timm", "torchvision",
        "psycopg", "pymilvus", "fastapi", "uvicorn", "jinja2", "onnx", "onnxruntime",
        "huggingface_hub", "pyarrow",
    }  # fmt: skip
    loaded = loaded_by(f"sys.argv = ['surefind', *'{arguments}'.split()]{MAIN}")
    assert "surefind.cli.commands" in loaded
    assert not heavy & loaded
    if "search" not in arguments:  # typer checks values with it
        assert "pydantic" not in loaded


@pytest.mark.parametrize("chosen", ["", "active"])
def test_waiting_threads_of_a_command_sleep_unless_the_user_chose(chosen: str):
    script = f"import os, sys\nsys.argv = ['surefind', '--version']{MAIN}\nprint(os.environ['OMP_WAIT_POLICY'])"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"OMP_WAIT_POLICY": chosen} if chosen else {}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [chosen or "passive"]
