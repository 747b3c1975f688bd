"""An index that is calibrated: what its answers say, and when they say nothing."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from clusters import DIM, FINGERPRINT, SPACE, cluster_index, clusters, gaussians, rows_of, thirds
from looking import look
from stores import flip_bit

import surefind as sf
from surefind.engines.space import Space
from surefind.search.confidence.fitting import Wishes
from surefind.search.confidence.verdict import VERDICTS
from surefind.search.index import Index

(GALLERY, LABELS), (KNOWN, KNOWN_LABELS), (FRESH, FRESH_LABELS) = thirds(classes=40, seed=3)
WISHES = Wishes(precision=0.75, probability=0.8)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "index"
    with cluster_index(folder, GALLERY, LABELS) as index:
        index.calibrate(KNOWN, labels=KNOWN_LABELS, wishes=WISHES, learn_doubt=False)
    return folder


@pytest.fixture
def index(made, tmp_path) -> Index:
    """A copy of its own for each test."""
    return Index.open(shutil.copytree(made, tmp_path / "index"))


def answers(index: Index, queries=FRESH, k: int = 5) -> list[tuple]:
    return [(result.confidence, result.verdict) for result in index.search(queries, k=k)]


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# what an answer says


def test_every_hit_says_how_sure_it_is(index):
    for result in index.search(FRESH[:50], k=7):
        sure = [hit.confidence for hit in result.hits]
        assert all(0 < one < 1 for one in sure)
        assert result.confidence == sure[0]
        assert result.verdict in VERDICTS
        assert 0 < result.novelty_p_value <= 1
        assert 1 <= result.show <= 20
        assert result.uncalibrated is None


def test_confidence_is_that_of_what_looking_at_everything_shows(index):
    model = index.calibration.model
    wanted = model.confidence(look(GALLERY, FRESH[:12]).seen)
    found = [[hit.confidence for hit in result.hits] for result in index.search(FRESH[:12], k=20)]
    assert np.array(found) == pytest.approx(wanted, abs=1e-4)


def test_hits_beyond_the_twentieth_have_no_confidence(index):
    for result in index.search(FRESH[:3], k=33):
        assert [hit.confidence is None for hit in result.hits] == [False] * 20 + [True] * 13


@pytest.mark.parametrize("k", [1, 19, 20, 60])
def test_what_is_said_does_not_depend_on_k(index, k):
    for few, many in zip(index.search(FRESH[:9], k=k), index.search(FRESH[:9], k=30), strict=True):
        both = min(k, 20)
        assert few.hits[:both] == pytest.approx(many.hits[:both]) or [
            hit.confidence for hit in few.hits[:both]
        ] == pytest.approx([hit.confidence for hit in many.hits[:both]])
        assert (few.verdict, few.show) == (many.verdict, many.show)


def test_what_is_said_of_a_query_does_not_depend_on_the_others(index):
    together = answers(index, FRESH[:20])
    alone = [answers(index, FRESH[row])[0] for row in range(20)]
    assert [one[1] for one in together] == [one[1] for one in alone]
    assert [one[0] for one in together] == pytest.approx([one[0] for one in alone])


def test_some_queries_match_some_are_unsure_and_sure_ones_are_right_more_often(index):
    results = index.search(FRESH, k=1)
    right = np.array(
        [
            result.hits[0].metadata["label"] == label
            for result, label in zip(results, FRESH_LABELS, strict=True)
        ]
    )
    called = np.array([result.verdict == "match" for result in results])
    assert 0.1 < called.mean() < 0.95
    assert right[called].mean() > 0.75 - 3 * (0.75 * 0.25 / called.sum()) ** 0.5
    assert right[called].mean() > right[~called].mean() + 0.2
    sure = np.array([result.confidence for result in results])
    assert sure.mean() == pytest.approx(right.mean(), abs=0.06)


def test_queries_far_away_are_foreign(index):
    far = gaussians(FRESH.mean.numpy() + 1000)
    for result in index.search(far[:30]):
        assert result.verdict == "foreign"
        assert result.novelty_p_value <= 0.01


def test_of_queries_that_belong_few_are_called_foreign(tmp_path):
    rate, called = 0.05, []
    for seed in range(5):
        gallery, known, fresh = thirds(seed=seed)
        with cluster_index(tmp_path / str(seed), *gallery) as index:
            wishes = Wishes(foreign_rate=rate)
            index.calibrate(known[0], labels=known[1], wishes=wishes, learn_doubt=False)
            called += [result.verdict == "foreign" for result in index.search(fresh[0], k=1)]
    slack = 3 * (2 * rate * (1 - rate) / len(called)) ** 0.5  # of the two sets of queries
    assert np.mean(called) <= rate + slack
    assert any(called)


# when nothing is said, and why


def test_nothing_is_said_before_the_calibration(tmp_path):
    index = cluster_index(tmp_path / "index", GALLERY, LABELS)
    assert (index.calibrated, index.calibration) == (None, None)
    result = index.search(FRESH[:1])[0]
    assert result.uncalibrated == f"not calibrated yet: surefind calibrate {tmp_path}/index DATA"
    assert (result.confidence, result.verdict, result.novelty_p_value) == (None, None, None)
    assert result.show is None
    assert {hit.confidence for hit in result.hits} == {None}


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"where": "label != class 3"}, "where"),
        ({"expand": 3}, "expand"),
        ({"ranking": "expected"}, "ranking=expected"),
    ],
)
def test_a_search_that_was_not_calibrated_says_why_it_is_silent(index, asked, named):
    result = index.search(FRESH[:1], **asked)[0]
    assert len(result.hits) == 5
    assert result.uncalibrated.startswith(f"no confidence with {named}:")
    assert (result.confidence, result.verdict, result.show) == (None, None, None)
    assert {hit.confidence for hit in result.hits} == {None}


def test_several_views_have_no_confidence_but_one_view_has(index):
    several = index.search_views(FRESH[:3])
    assert several.uncalibrated.startswith("no confidence with several views")
    assert several.confidence is None
    one = index.search_views(FRESH[:1])
    assert one.confidence == pytest.approx(index.search(FRESH[:1])[0].confidence)


def test_a_gallery_that_became_too_small_gives_hits_and_a_reason(index):
    index.remove([f"row-{n}" for n in range(19, len(LABELS))])
    result = index.search(FRESH[:1], k=30)[0]
    assert len(result.hits) == 19
    assert "fewer than 20 images were found" in result.uncalibrated
    assert (result.confidence, result.verdict) == (None, None)
    index.remove([f"row-{n}" for n in range(19)])
    nothing = index.search(FRESH[:1])[0]
    assert nothing.hits == ()
    assert "fewer than 20 images" in nothing.uncalibrated


# the gallery changes


@pytest.mark.parametrize("k", [5, 60])
def test_rows_that_come_later_are_judged_too(index, k):
    more = rows_of(*clusters(seed=8), prefix="late")
    index.add_embeddings(more.embeddings, more.ids, metadata=more.metadata)
    late = 0
    for result in index.search(more.embeddings[:20], k=k):
        assert result.verdict in VERDICTS
        assert all(0 < hit.confidence < 1 for hit in result.hits[:20])
        late += result.hits[0].id.startswith("late")
    assert late == 20


def test_removed_rows_leave_the_others_judged(index):
    index.remove([f"row-{n}" for n in range(0, len(LABELS), 2)])
    for result in index.search(FRESH[:20]):
        assert result.verdict in VERDICTS
        assert all(int(hit.id[4:]) % 2 for hit in result.hits)


def test_a_snapshot_keeps_the_calibration(index, tmp_path):
    copy = index.snapshot(tmp_path / "copy")
    shutil.rmtree(tmp_path / "index")
    assert answers(Index.open(tmp_path / "copy")) == answers(copy)
    assert copy.calibration.promise.queries == len(KNOWN_LABELS)


def test_an_opened_index_answers_as_the_one_that_was_calibrated(index, tmp_path):
    assert answers(Index.open(tmp_path / "index")) == answers(index)


def test_refreshing_shows_the_calibration_of_another_process(tmp_path):
    index = cluster_index(tmp_path / "index", GALLERY, LABELS)
    assert index.search(FRESH[:1])[0].confidence is None
    with Index.open(tmp_path / "index") as other:
        other.calibrate(KNOWN, labels=KNOWN_LABELS, learn_doubt=False)
        wanted = answers(other)
    assert index.search(FRESH[:1])[0].confidence is None
    index.refresh()
    assert answers(index) == wanted


def test_verify_names_a_damaged_calibration_and_calibrating_again_mends_it(index, tmp_path):
    assert index.verify() == []
    flip_bit(next((tmp_path / "index" / "calibration").glob("neighbourhoods*")))
    damaged = Index.open(tmp_path / "index")
    assert any("damaged" in problem for problem in damaged.verify())
    with pytest.raises(sf.InvalidFile, match=r"(?s)damaged.*calibrate again"):
        damaged.search(FRESH[:1])
    damaged.calibrate(learn_doubt=False)
    assert damaged.search(FRESH[:1])[0].confidence is not None
    assert damaged.verify() == []


def test_the_calibration_is_described(index):
    described = index.describe()["calibration"]
    assert described["origin"]["queries"] == len(KNOWN_LABELS)
    assert described["origin"]["source"] == "embeddings"
    assert described["promise"]["precision"] == 0.75


# shift, and the calibration of another gallery


def test_queries_like_those_of_the_calibration_show_less_shift_than_others(index):
    moved = gaussians(FRESH.mean.numpy() + np.random.default_rng(0).normal(size=FRESH.mean.shape))
    found = {shift.name: shift.statistic for shift in index.shift(moved)}
    assert {"distance", "confidence"} <= set(found)
    alike = {shift.name: shift.statistic for shift in index.shift(FRESH)}
    assert "distance" not in alike
    assert found["distance"] > 0.3


def test_a_shift_needs_a_calibration_and_enough_queries(index, tmp_path):
    plain = cluster_index(tmp_path / "plain", GALLERY, LABELS)
    with pytest.raises(sf.InvalidArgument, match="expected a calibrated index"):
        plain.shift(FRESH)
    for count in (0, 29):
        with pytest.raises(sf.InvalidArgument, match=f"at least 30 queries .*got {count} of"):
            index.shift(FRESH[:count])
    index.remove([f"row-{n}" for n in range(19, len(LABELS))])
    with pytest.raises(sf.InvalidArgument, match=f"got 0 of {len(FRESH_LABELS)}"):
        index.shift(FRESH)


def test_a_calibration_can_be_adopted_by_another_gallery_of_the_model(index, tmp_path):
    gallery, _, fresh = thirds(classes=40, seed=11)
    other = cluster_index(tmp_path / "other", *gallery)
    other.adopt(index.calibrated)
    model = index.calibration.model
    wanted = model.confidence(look(gallery[0], fresh[0][:8]).seen)[:, 0]
    found = [result.confidence for result in other.search(fresh[0][:8])]
    assert found == pytest.approx(wanted, abs=1e-4)
    assert Index.open(tmp_path / "other").calibration == index.calibration


@pytest.mark.parametrize(
    ("space", "fingerprint"), [(SPACE, "d" * 64), (Space("gaussian", DIM, "expected"), FINGERPRINT)]
)
def test_a_calibration_of_another_model_or_order_is_not_adopted(
    index, tmp_path, space, fingerprint
):
    other = Index.create_empty(tmp_path / "other", space, fingerprint=fingerprint)
    with pytest.raises(sf.InvalidFile, match="calibration of another index"):
        other.adopt(index.calibrated)
    assert other.calibration is None


# what it is calibrated with


def test_own_rows_are_asked_of_the_others(tmp_path):
    index = cluster_index(tmp_path / "index", GALLERY, LABELS)
    origin = index.calibrate(learn_doubt=False).origin
    assert (origin.queries, origin.classes, origin.gallery) == (len(LABELS), 40, len(LABELS))
    assert (origin.source, origin.without_match) == ("the index itself", 0)
    assert 0.5 < index.calibration.quality.right < 0.8  # 1 if they were their own hits


def test_progress_is_told_by_name(tmp_path):
    told: dict[str, tuple[int, int]] = {}
    index = cluster_index(tmp_path / "index", *clusters())
    index.calibrate(learn_doubt=False, progress=lambda what, *count: told.update({what: count}))
    assert told == {
        "looking around every image": (288, 288),
        "asking labelled queries": (288, 288),
    }


def test_learned_doubt_is_kept_and_used(tmp_path):
    index = cluster_index(tmp_path / "index", *clusters(vague=True))
    calibration = index.calibrate(seed=1)
    assert {"doubt", "near_doubt", "disagreement"} <= set(calibration.model.names)
    assert index.calibrated.heads is not None
    query = clusters(seed=9)[0][:20]
    assert answers(Index.open(tmp_path / "index"), query) == answers(index, query)
    again = cluster_index(tmp_path / "again", *clusters(vague=True)).calibrate(seed=1)
    assert again.model == calibration.model


def test_one_query_of_each_class_is_enough_though_no_doubt_is_learned(tmp_path):
    gallery, known, _ = thirds(classes=60, seed=5)
    index = cluster_index(tmp_path / "index", *gallery)
    first = [known[1].index(f"class {code}") for code in range(60)]
    index.calibrate(known[0][first], labels=[known[1][row] for row in first])
    assert index.calibrated.heads is None
    assert index.calibration.origin.classes == 60


def test_labels_may_be_numbers_on_both_sides(tmp_path):
    index = Index.create_empty(tmp_path / "index", SPACE, fingerprint=FINGERPRINT)
    codes, known = ([int(label[6:]) for label in some] for some in (LABELS, KNOWN_LABELS))
    names = [str(row) for row in range(len(codes))]
    index.add_embeddings(GALLERY, names, metadata=[{"label": code} for code in codes])
    numbers = index.calibrate(KNOWN, labels=np.array(known), learn_doubt=False)
    texts = cluster_index(tmp_path / "texts", GALLERY, LABELS)
    other = texts.calibrate(KNOWN, labels=KNOWN_LABELS, learn_doubt=False)
    assert numbers.quality.right == other.quality.right


def test_queries_without_a_label_are_left_out(index):
    labels = [None, float("nan"), "", *KNOWN_LABELS[3:]]
    assert index.calibrate(KNOWN, labels=labels, learn_doubt=False).origin.queries == 477


def test_an_index_in_expected_order_is_calibrated_in_that_order(tmp_path):
    space = Space("gaussian", DIM, "expected")
    index = Index.create_empty(tmp_path / "index", space, fingerprint=FINGERPRINT)
    rows = rows_of(*clusters(vague=True))
    index.add_embeddings(rows.embeddings, rows.ids, metadata=rows.metadata)
    assert index.calibrate(learn_doubt=False).origin.ranking == "expected"
    assert index.search(FRESH[:1])[0].confidence is not None
    assert index.search(FRESH[:1], ranking="mean")[0].confidence is None


def test_places_serve_as_labels(tmp_path):
    index = Index.create_empty(tmp_path / "index", SPACE, fingerprint=FINGERPRINT)
    codes = [int(label[6:]) for label in LABELS]
    facts = [{"east": 100.0 * code, "north": 0.0} for code in codes]
    facts[0] = {}
    index.add_embeddings(GALLERY, [str(n) for n in range(len(codes))], metadata=facts)
    origin = index.calibrate().origin
    assert (origin.queries, origin.classes) == (len(codes) - 1, len(codes) - 1)


# what is refused, and leaves everything as it was


def unlabelled(folder: Path) -> Index:
    index = Index.create_empty(folder, SPACE, fingerprint=FINGERPRINT)
    index.add_embeddings(GALLERY, [str(n) for n in range(len(LABELS))])
    return index


@pytest.mark.parametrize("learn_doubt", [True, False])
@pytest.mark.parametrize(
    ("queries", "labels", "message"),
    [
        (KNOWN[:10], KNOWN_LABELS[:10], "at least 50 labelled queries, got 10"),
        (KNOWN[:60], ["cat"] * 60, "at least 4 classes, got 1 .of 60 queries"),
        (KNOWN, None, "expected 480, one for each query, got none"),
        (KNOWN, KNOWN_LABELS[:7], "expected 480, one for each query, got 7"),
        (KNOWN, [None] * 480, "queries with labels.*got 480 without"),
        (KNOWN[:0], [], "queries with labels.*got no queries"),
        (KNOWN, [f"other {n % 9}" for n in range(480)], "first hit is right, got 0"),
        (GALLERY, LABELS, "first hit is wrong, got 0"),
        (gaussians(torch.zeros(60, 3).numpy()), LABELS[:60], "dimensions, as in the index"),
    ],
)
def test_queries_that_will_not_do_are_one_clear_error_and_nothing_is_written(
    index, tmp_path, queries, labels, message, learn_doubt
):
    before = files_in(tmp_path / "index" / "calibration")
    with pytest.raises(sf.InvalidArgument, match=message):
        index.calibrate(queries, labels=labels, learn_doubt=learn_doubt)
    assert files_in(tmp_path / "index" / "calibration") == before
    assert index.search(FRESH[:1])[0].confidence is not None


def test_wishes_that_make_no_sense_are_refused_before_the_work(index, tmp_path):
    before = files_in(tmp_path / "index" / "calibration")
    told: list[str] = []
    with pytest.raises(sf.InvalidArgument, match="foreign_rate.*below 1, got 5"):
        index.calibrate(
            wishes=Wishes(foreign_rate=5),
            learn_doubt=False,
            progress=lambda what, *_: told.append(what),
        )
    assert told == []
    assert files_in(tmp_path / "index" / "calibration") == before


def test_an_index_without_labels_is_refused_before_the_work(tmp_path):
    index = unlabelled(tmp_path / "index")
    with pytest.raises(sf.InvalidArgument, match=r"labels.*got 480 without"):
        index.calibrate()
    told: list[str] = []
    with pytest.raises(sf.InvalidArgument, match="got 480 images without"):
        index.calibrate(
            KNOWN,
            labels=KNOWN_LABELS,
            learn_doubt=False,
            progress=lambda what, *_: told.append(what),
        )
    assert told == []
    assert not (tmp_path / "index" / "calibration").exists()


def test_an_empty_index_and_one_that_is_too_small_are_refused(tmp_path):
    empty = Index.create_empty(tmp_path / "empty", SPACE, fingerprint=FINGERPRINT)
    with pytest.raises(sf.InvalidArgument, match="got no queries"):
        empty.calibrate()
    small = cluster_index(tmp_path / "small", GALLERY[:21], LABELS[:21])
    with pytest.raises(sf.InvalidArgument, match="at least 22 images, got 21"):
        small.calibrate(KNOWN, labels=KNOWN_LABELS, learn_doubt=False)
