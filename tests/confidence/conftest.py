"""Calibration data of overlapping clusters, collected once."""

import pytest
from clusters import cluster_data, clusters

from surefind.confidence.labelled_queries import CalibrationData


@pytest.fixture(scope="session")
def few(tmp_path_factory) -> CalibrationData:
    return cluster_data(tmp_path_factory.mktemp("few") / "store", *clusters())
