"""An index of overlapping clusters calibrated without labels, copied for each test."""

import shutil
from pathlib import Path

import pytest
from clusters import cluster_index, thirds

from surefind.confidence.calibrate import CalibrationTargets
from surefind.search.index import Index


@pytest.fixture(scope="session")
def calibrated_folder(tmp_path_factory) -> Path:
    gallery, known, _ = thirds(classes=40, seed=3)
    targets = CalibrationTargets(precision=0.75, probability=0.8)
    folder = tmp_path_factory.mktemp("calibrated") / "index"
    with cluster_index(folder, *gallery) as index:
        index.calibrate(known[0], labels=known[1], targets=targets, use_labels=False, learn_variance=False)
    return folder


@pytest.fixture
def index(calibrated_folder, tmp_path) -> Index:
    return Index.open(shutil.copytree(calibrated_folder, tmp_path / "index"))
