"""Results as people read them: one line, a small table, a DataFrame."""

import sys

import numpy as np
import pytest

import surefind as sf
from surefind.engines.base import Space
from surefind.search import Hit, SearchResult, results_to_pandas


def result_of(*, count: int = 2, query: str = "query.jpg") -> SearchResult:
    hits = tuple(
        Hit(
            id=f"{i}.jpg",
            path=None,
            distance=0.25,
            expected_distance=0.5,
            std=0.1,
            var=0.01,
            metadata={"label": "wren", "price": i},
            label="wren",
            confidence=0.875,
        )
        for i in range(count)
    )
    return SearchResult(query, hits, 0.01, "mean", confidence=0.875, verdict="match", label="wren")


def test_a_result_is_one_line_and_a_small_table():
    result = result_of(count=500, query="<b>.jpg")
    assert repr(result) == (
        "SearchResult(query=<b>.jpg, verdict=match, confidence=0.875, label=wren, hits=500, first=0.jpg)"
    )
    html = result._repr_html_()
    assert "&lt;b&gt;.jpg" in html
    assert html.count("wren") == 11  # of the query and of ten hits
    assert repr(result.hits[0]) == "Hit(id=0.jpg, label=wren, confidence=0.875, distance=0.25)"


def test_results_become_one_row_per_hit():
    frame = results_to_pandas([result_of(), result_of(count=1, query="b.jpg")])
    assert frame["query"].tolist() == ["query.jpg", "query.jpg", "b.jpg"]
    assert frame["rank"].tolist() == [1, 2, 1]
    assert frame["price"].tolist() == [0, 1, 0]
    assert frame.columns.tolist().count("label") == 1
    assert result_of().to_pandas().equals(frame[:2])
    assert "id" in results_to_pandas([]).columns


def test_without_pandas_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(sf.SurefindError, match="pip install pandas"):
        result_of().to_pandas()


def test_an_index_is_one_line_also_when_it_is_closed(tmp_path):
    index = sf.Index.create_empty(tmp_path / "i", Space("gaussian", 4, "mean"), fingerprint="f")
    index.add_embeddings(sf.Gaussians(np.eye(4), np.ones(4)), ["a", "b", "c", "d"])
    assert repr(index).endswith("dim=4, ranking=mean, images=4)")
    index.close()
    assert repr(index).endswith("dim=4, ranking=mean)")
