"""An index and labelled queries: what is counted, measured, drawn and written."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from class_folders import write_pictures
from html_tags import Tags
from labelled_index import COPIES, KNOWN, Asked, make_index, make_queries
from sklearn.metrics import roc_auc_score

import surefind as sf
from surefind.encoders import Encoder
from surefind.metrics.intervals import Estimate
from surefind.reports.figures.curves import draw_index
from surefind.reports.index_evaluation import IndexEvaluation, evaluate_index
from surefind.reports.report import write_index_report
from surefind.serve.state import read_report
from surefind.vectors.reader import as_points

QUERIES, UNKNOWN = 240, 40


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> sf.Index:
    return make_index(tmp_path_factory.mktemp("labelled") / "shop")


@pytest.fixture(scope="module")
def asked() -> Asked:
    return make_queries()


@pytest.fixture(scope="module")
def found(index: sf.Index, asked: Asked) -> IndexEvaluation:
    return evaluate_index(index, as_points(asked.vectors), labels=asked.labels)


def naive(index: sf.Index, asked: Asked) -> dict[str, list[tuple[float, bool]]]:
    """Uncertainty and correctness by signal, one query at a time."""
    rows = index.items([f"item {row}" for row in range(1000)])
    gallery = rows.embeddings.mean.double().numpy()
    names = [facts["label"] for facts in rows.metadata]
    answers: dict[str, list[tuple[float, bool]]] = {}
    for vector, own in list(zip(asked.vectors, asked.labels, strict=True))[:QUERIES]:
        distance = ((gallery - vector.astype(float)) ** 2).sum(1)
        order = np.argsort(distance, kind="stable")[:20]
        d, labels = distance[order], [names[row] for row in order]
        nearest = gallery[order[0]]
        cosine = nearest @ vector / np.linalg.norm(nearest) / np.linalg.norm(vector)
        voted, count = Counter(labels[:10]).most_common(1)[0]
        (result,) = index.search(as_points(vector[None]))
        for name, uncertainty, answer in (
            ("confidence", -result.label_confidence, result.label),
            ("label_vote", -count / 10, voted),
            ("nearest_distance", d[0], labels[0]),
            ("ratio_1_10", d[0] / d[9], labels[0]),
            ("ratio_1_20", d[0] / d[19], labels[0]),
            ("nearest_cosine", 1 - cosine, labels[0]),
        ):
            answers.setdefault(name, []).append((uncertainty, answer == own))
    return answers


def test_every_signal_agrees_with_a_plain_loop(index, asked, found: IndexEvaluation):
    plain = naive(index, asked)
    assert list(found.signals) == list(plain)
    for name, pairs in plain.items():
        unsure, right = np.array([u for u, _ in pairs]), np.array([r for _, r in pairs])
        signal = found.signals[name]
        assert signal.accuracy == pytest.approx(right.mean())
        assert signal.auroc.value == pytest.approx(roc_auc_score(~right, unsure), abs=1e-6)
        assert signal.auroc.low < signal.auroc.value < signal.auroc.high
        best = 0.0
        for threshold in unsure:  # the surest that are right often enough
            answered = unsure <= threshold + 1e-9
            if right[answered].mean() >= 0.7 - 1e-9:
                best = max(best, answered.mean())
        assert signal.answered == pytest.approx(best)
        assert signal.uses_labels is (name in ("confidence", "label_vote"))
        assert (signal.ece is not None) is (name in ("confidence", "nearest_cosine"))
        assert (signal.floor is not None) is (signal.ece is not None)
    assert found.nearest_right == found.signals["nearest_distance"].accuracy
    assert found.label_accuracy == found.first_right == found.signals["confidence"].accuracy


def test_a_variance_of_the_queries_is_a_signal(index, asked):
    points = as_points(asked.vectors[:QUERIES])
    var = np.random.default_rng(0).uniform(0.1, 0.2, QUERIES).astype(np.float32)
    queries = sf.Gaussians(points.mean, torch.from_numpy(var))
    found = evaluate_index(index, queries, labels=asked.labels[:QUERIES])
    wrong = ~found.answers["nearest_distance"].right
    expected = roc_auc_score(wrong, var)
    assert found.signals["query_var"].auroc.value == pytest.approx(expected, abs=1e-6)


def test_verdicts_are_counted_by_whether_the_class_is_in_the_index(index, asked, found):
    verdicts = {"known": Counter(), "unknown": Counter()}
    right, covered = 0, {}
    for vector, own in list(zip(asked.vectors, asked.labels, strict=True))[:QUERIES]:
        (result,) = index.search(as_points(vector[None]))
        known = int(own.split()[1]) < KNOWN
        verdicts["known" if known else "unknown"][result.verdict] += 1
        right += result.verdict == "match" and result.label == own
        if known:
            covered.setdefault(own, []).append(own in result.label_set)
    for which, counts in verdicts.items():
        its = found.verdicts[which]
        assert (its.match, its.unsure, its.no_match) == tuple(
            counts[verdict] for verdict in ("match", "unsure", "no_match")
        )
    every = found.verdicts["all"]
    assert (every.queries, found.verdicts["unknown"].queries) == (QUERIES, UNKNOWN)
    assert (every.right, found.verdicts["unknown"].right) == (right, 0)
    assert found.precision.value == pytest.approx(right / every.match)
    assert found.set_coverage == pytest.approx(np.mean([np.mean(its) for its in covered.values()]))
    assert found.set_target == pytest.approx(0.9)


def test_queries_in_the_index_and_copies_of_another_are_left_out_and_counted(found):
    assert {its.reason: its.count for its in found.exclusions} == {"in the index": COPIES, "copies of another query": 1}


def test_an_equal_vector_with_another_label_is_an_error_and_counts(index, asked):
    rows = index.items(["item 0", "item 2"]).embeddings
    queries = sf.Gaussians.cat([as_points(asked.vectors[:50]), rows])
    found = evaluate_index(index, queries, labels=[*asked.labels[:50], "thing 0", "thing 9"])
    assert {its.reason: its.count for its in found.exclusions} == {"in the index": 1}
    assert found.queries == 51
    assert (found.answers["confidence"].probability[-1], found.answers["confidence"].right[-1]) == (1.0, False)


def with_precision(found: IndexEvaluation, *values: float) -> IndexEvaluation:
    return replace(found, precision=Estimate(*values), guaranteed=True)


def test_the_sentences_are_those_of_a_shop_owner(found: IndexEvaluation):
    first, *_, last = with_precision(found, 0.97, 0.95, 0.99).sentences
    match = round(100 * found.verdicts["all"].match / QUERIES)
    assert first == (f"Of 240 queries {match} % are answered; 97 % of the answers are right (70 % were guaranteed).")
    assert last.startswith("40 queries are of classes that are not in the index; ")
    assert "(70 % were requested, not guaranteed)" in replace(found, guaranteed=False).sentences[0]
    nothing = replace(found, precision=None)
    assert (nothing.sentences[0], nothing.kept) == ("Of 240 queries none is answered.", None)


@pytest.mark.parametrize(
    ("values", "kept", "words"),
    [
        ((0.7, 0.6, 0.8), True, None),
        ((0.69, 0.6, 0.8), False, "may be chance"),
        ((0.5, 0.4, 0.6), False, "too low to be chance"),
    ],
)
def test_a_guarantee_is_kept_or_not(found: IndexEvaluation, values, kept: bool, words: str | None):
    judged = with_precision(found, *values)
    assert judged.kept is kept
    assert (words is None) or words in judged.sentences[1]
    assert replace(judged, guaranteed=False).kept is None


def test_an_index_calibrated_without_labels_has_hits_instead(tmp_path: Path):
    asked = make_queries(known_only=True)
    with make_index(tmp_path / "index", calibrate=False) as index:
        index.calibrate(use_labels=False, learn_variance=False)
        found = evaluate_index(index, as_points(asked.vectors), labels=asked.labels)
    assert (found.evidence, found.label_accuracy) == ("neighbourhoods", None)
    assert not found.signals["confidence"].uses_labels
    assert found.signals["confidence"].accuracy == found.first_right
    assert found.set_size > 1
    assert found.verdicts["unknown"].queries == 0
    write_index_report(tmp_path / "report", found)


def test_images_are_found_by_their_content_and_unreadable_ones_counted(place: Path, tmp_path: Path):
    for name, seed in (("gallery", 0), ("asked", 1)):
        write_pictures(tmp_path / name, classes=6, per_class=6, seed=seed)
    (tmp_path / "asked" / "class00" / "broken.png").write_bytes(b"no picture")
    copied = (tmp_path / "gallery" / "class01" / "0.png").read_bytes()
    (tmp_path / "asked" / "class01" / "copy.png").write_bytes(copied)
    encoder = Encoder.load(place / "gaussian")
    with sf.Index.create(tmp_path / "index", encoder, tmp_path / "gallery") as index:
        found = evaluate_index(index, tmp_path / "asked")
        assert {its.reason: its.count for its in found.exclusions} == {"unreadable": 1, "in the index": 1}
        assert (found.queries, found.classes) == (36, 6)
        for file in (tmp_path / "asked").rglob("*.png"):
            file.write_bytes(b"no picture")
        with pytest.raises(sf.InvalidArgument, match="expected readable images, got 38 that are"):
            evaluate_index(index, tmp_path / "asked")


def test_an_index_that_became_too_small_to_judge_is_one_clear_error(tmp_path: Path):
    asked = make_queries()
    with make_index(tmp_path / "index", calibrate=False) as index:
        index.calibrate(use_labels=False, learn_variance=False)
        index.remove([f"item {row}" for row in range(20, 1000)])
        with pytest.raises(sf.SurefindError, match="fewer than 20 images were found"):
            evaluate_index(index, as_points(asked.vectors), labels=asked.labels)


def test_bad_input_is_one_clear_error(index: sf.Index, asked: Asked, monkeypatch):
    queries, count = as_points(asked.vectors), len(asked.labels)
    with pytest.raises(sf.InvalidArgument, match=f"labels: expected {count}, one per"):
        evaluate_index(index, queries)
    with pytest.raises(sf.InvalidArgument, match=r"queries with labels \(label\), got 245 without"):
        evaluate_index(index, queries, labels=[None] * count)
    rows = index.items([f"item {row}" for row in (0, 2, 4, 6)])
    own = [facts["label"] for facts in rows.metadata]
    with pytest.raises(sf.InvalidArgument, match="got 4, all of which are in it"):
        evaluate_index(index, rows.embeddings, labels=own)
    with pytest.raises(sf.SurefindError, match="16"):
        evaluate_index(index, as_points(asked.vectors[:, :7]), labels=asked.labels)
    monkeypatch.setattr(sf.Index, "calibrated", None)
    with pytest.raises(sf.InvalidArgument, match=r"not calibrated\n  fix: surefind calibrate "):
        evaluate_index(index, queries, labels=asked.labels)


def test_a_stale_calibration_and_queries_that_it_was_made_with_are_said(asked, tmp_path: Path):
    queries = as_points(asked.vectors)
    with make_index(tmp_path / "index") as index:
        origin = replace(index.calibration.origin, source="asked.npz", gallery=100)
        calibration = replace(index.calibration, origin=origin)
        index.adopt(replace(index.calibrated, calibration=calibration))
        found = evaluate_index(index, queries, labels=asked.labels, name="asked.npz")
    stale, known = found.remarks
    assert known.startswith("the index was calibrated with these queries")
    assert stale.startswith("stale: the gallery has 200 images and had 100 when calibrated")
    assert not found.guaranteed


# figure and page


def test_the_figure_has_all_signals_and_the_probabilities_among_them(found: IndexEvaluation):
    left, right = draw_index(found).axes
    curves = [str(line.get_label()).split(",")[0] for line in right.get_lines()]
    assert curves[:6] == [
        "surefind's confidence", "label vote of 10", "nearest distance d₁", "d₁/d₁₀", "d₁/d₂₀",
        "cosine + Platt",
    ]  # fmt: skip
    assert curves[6:] == ["0.7 right", "verdict match ends"]
    assert right.get_lines()[7].get_xdata()[0] == found.verdicts["all"].match / QUERIES
    probabilities = [str(line.get_label()).split(",")[0] for line in left.get_lines()]
    assert probabilities == ["perfectly calibrated", "surefind's confidence", "cosine + Platt"]
    _, right = draw_index(replace(found, guaranteed=False)).axes
    assert right.get_title(loc="left") == "Precision 0.7 is not guaranteed"


def test_the_report_is_self_contained_and_can_be_served(found: IndexEvaluation, tmp_path: Path):
    hostile = replace(found, data="<script>asked</script>", remarks=("surer & wrong",))
    page = write_index_report(tmp_path / "report", hostile)
    assert {path.name for path in page.parent.iterdir()} == {
        "results.json", "figures", "report.html",
    }  # fmt: skip
    assert read_report(page.parent) == page.read_bytes()
    tags = Tags(page.read_text())
    assert tags.open == []
    assert all(source.startswith(("data:image/svg+xml", "#")) for source in tags.addresses)
    for sentence in hostile.sentences:
        assert sentence in tags.text
    for signal in hostile.signals.values():
        assert f"{signal.auroc.value:.3f}" in tags.text
        assert f"{signal.aurc:.3f}" in tags.text
    assert "<script>asked</script>" in tags.text and "surer & wrong" in tags.text
    assert found.index not in page.read_text() and "shop" in tags.text  # no folders
    facts = json.loads((page.parent / "results.json").read_text())
    assert facts == json.loads(json.dumps(hostile.as_dict()))
    assert facts["verdicts"]["all"]["queries"] == QUERIES
    assert "answers" not in facts
