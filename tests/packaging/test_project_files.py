"""Files that others read by convention: how to cite, how to report a weakness."""

import re
from pathlib import Path

import yaml

import surefind

ROOT = Path(__file__).parents[2]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_citation_has_what_its_format_demands_and_names_this_version():
    assert {"cff-version", "message", "title", "authors", "license", "abstract"} <= CITATION.keys()
    assert str(CITATION["version"]) == surefind.__version__
    (paper,) = CITATION["references"]
    assert paper["title"].startswith("Bayesian Triplet Loss") and paper["year"] == 2021


def test_the_security_policy_supports_this_version_and_names_no_address():
    policy = (ROOT / "SECURITY.md").read_text()
    series = ".".join(surefind.__version__.split(".")[:2])
    assert f"| {series}.x | yes |" in policy
    assert "private security advisories" in policy
    assert not re.search(r"[\w.]+@[\w-]+\.\w+", policy)
