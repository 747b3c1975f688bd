"""What `pip install 'surefind[...]'` adds, and what of it is missing."""

from importlib.util import find_spec
from typing import NamedTuple

from surefind.doctor.finding import Finding, fine
from surefind.doctor.packages import version_of


class Extra(NamedTuple):
    """What it is for, and its packages: as pip calls them, and as Python does."""

    purpose: str
    packages: dict[str, str]


EXTRAS = {
    "serve": Extra(
        "surefind serve",
        {"fastapi": "fastapi", "uvicorn": "uvicorn", "prometheus-client": "prometheus_client"},
    ),
    "onnx": Extra(
        "surefind export --onnx, --runtime onnx",
        {"onnx": "onnx", "onnxscript": "onnxscript", "onnxruntime": "onnxruntime"},
    ),
    "pgvector": Extra("--engine pgvector://", {"psycopg": "psycopg"}),
    "milvus": Extra("--engine milvus://", {"pymilvus": "pymilvus"}),
    "tensorboard": Extra("curves of training in TensorBoard", {"tensorboard": "tensorboard"}),
    "parquet": Extra("tables in .parquet files", {"pyarrow": "pyarrow"}),
    "docs": Extra(
        "the documentation's site", {"mkdocs-material": "material", "mkdocstrings": "mkdocstrings"}
    ),
}


def extras() -> list[Finding]:
    """Each extra, with the versions that are there or the command that installs it."""
    return [_extra(name, extra) for name, extra in EXTRAS.items()]


def _extra(name: str, extra: Extra) -> Finding:
    missing = [module for module in extra.packages.values() if find_spec(module) is None]
    if missing:
        seen = f"{', '.join(missing)} not installed; for {extra.purpose}"
        return Finding(name, "absent", seen, f"pip install 'surefind[{name}]'")
    versions = ", ".join(f"{package} {version_of(package) or '?'}" for package in extra.packages)
    return fine(name, versions)
