"""A calibrated index on every engine: the same confidence as the plainest engine gives."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
from clusters import FINGERPRINT, SPACE, cluster_index, rows_of, thirds
from memory_engine import MemoryEngine

from surefind.confidence import neighbours
from surefind.confidence.calibrate import CalibrationTargets, calibrate_engine, embedded_queries
from surefind.confidence.conformal import VERDICTS
from surefind.confidence.judge import Judge
from surefind.engines.base import Rows
from surefind.search.hits import SearchResult
from surefind.search.index import Index
from surefind.search.query import answer, search_request

GALLERY, (KNOWN, LABELS), (FRESH, _) = thirds(classes=24, per_class=18, seed=6)
LATE = rows_of(FRESH[60:90], ["late"] * 30, prefix="late")
REPLACED = replace(LATE, ids=rows_of(*GALLERY).ids[::4][: len(LATE)])
# All verdicts occur with these.
TARGETS = CalibrationTargets(precision=0.7, probability=0.5, novelty_level=0.05)


def plain_answers(*, then: Rows | None = None) -> list[SearchResult]:
    """Without an index: all in memory."""
    engine = MemoryEngine(SPACE, {"fingerprint": FINGERPRINT})
    engine.add(rows_of(*GALLERY))
    queries = embedded_queries(KNOWN, LABELS)
    made = calibrate_engine(engine, queries, TARGETS, source="memory")
    if then is not None:
        engine.add(then)
    request = search_request(engine, 25, None, None, calibrated=True)
    query = engine.space.queries(FRESH[:60])
    return answer(engine, query, [""] * 60, request, Judge(made, None, guaranteed=True))


def assert_alike(found: list[SearchResult], wanted: list[SearchResult]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert [hit.id for hit in one.hits] == [hit.id for hit in other.hits]
        sure, plain = ([hit.confidence for hit in its.hits] for its in (one, other))
        assert sure[:20] == pytest.approx(plain[:20], abs=1e-5)
        assert sure[20:] == [None] * 5
        assert (one.verdict, one.show) == (other.verdict, other.show)
        assert one.novelty_p_value == pytest.approx(other.novelty_p_value)


def test_confidence_and_verdict_are_those_of_the_plainest_engine(tmp_path, engine):
    with cluster_index(tmp_path / "index", *GALLERY, engine=engine) as index:
        index.calibrate(KNOWN, labels=LABELS, targets=TARGETS, use_labels=False, learn_variance=False)
        wanted = plain_answers()
        assert {result.verdict for result in wanted} == set(VERDICTS)
        assert_alike(index.search(FRESH[:60], k=25), wanted)
    url = engine if "://" in engine else None
    with Index.open(tmp_path / "index", engine=url) as again:
        assert_alike(again.search(FRESH[:60], k=25), wanted)


@pytest.mark.parametrize("then", [LATE, REPLACED], ids=["added", "replaced"])
def test_rows_that_come_later_are_judged_alike(tmp_path, engine, then):
    """The new image of an id has another density around it than the one calibrated with."""
    with cluster_index(tmp_path / "index", *GALLERY, engine=engine) as index:
        index.calibrate(KNOWN, labels=LABELS, targets=TARGETS, use_labels=False, learn_variance=False)
        index.add_embeddings(then.embeddings, then.ids, metadata=then.metadata, replace=True)
        found = index.search(FRESH[:60], k=25)
    assert {hit.id for result in found for hit in result.hits} & {*then.ids}
    assert_alike(found, plain_answers(then=then))


def test_rows_that_stay_are_not_looked_at_again(tmp_path, engine, monkeypatch):
    computed = Mock(wraps=neighbours.knn_distances_of)
    monkeypatch.setattr(neighbours, "knn_distances_of", computed)
    with cluster_index(tmp_path / "index", *GALLERY, engine=engine) as index:
        index.calibrate(KNOWN, labels=LABELS, targets=TARGETS, use_labels=False, learn_variance=False)
        assert sum(len(call.args[1]) for call in computed.call_args_list) == len(index)
        computed.reset_mock()
        index.search(FRESH[:60], k=25)
        computed.assert_not_called()
