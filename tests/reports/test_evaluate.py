"""A model and pictures through the whole of `evaluate`."""

import errno
import os
from pathlib import Path

import pytest
import torch
from pictures import write_pictures

from surefind.encoders import Encoder
from surefind.encoders.onnx.runtime import OnnxEncoder
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.reports.evaluate import Request, evaluate
from surefind.reports.report import ReportFolder
from surefind.reports.result import EvalResult, QueryTable


def request(place: Path, **changes) -> Request:
    return Request(
        **{"model": place / "gaussian", "data": str(place / "own"), "ladder": 0} | changes
    )


def test_an_evaluation_tells_what_it_is_about(place: Path):
    about = evaluate(request(place, foreign=str(place / "foreign"))).result.about
    assert (about.queries, about.gallery, about.classes) == (20, 20, 4)
    assert about.fingerprint == Encoder.load(place / "gaussian").fingerprint
    assert about.foreign_queries == 15
    assert about.resampled_classes == 4
    assert torch.__version__.startswith(about.versions["torch"])


def test_a_broken_picture_is_counted_with_its_reason(place: Path):
    (excluded,) = evaluate(request(place)).result.exclusions
    assert excluded.count == 1
    assert excluded.examples == ("class07/broken.png",)
    assert "cannot be read" in excluded.reason


def test_files_that_are_there_twice_change_no_figure_and_are_counted(place: Path, tmp_path: Path):
    """Also for a model whose embeddings of one file differ from pass to pass."""
    own = write_pictures(tmp_path / "own", classes=8)
    for path in sorted(own.glob("class0[4-7]/*.png"))[::3]:
        (path.parent / f"{path.stem}z.png").write_bytes(path.read_bytes())
    for model in ({}, {"model": place / "point", "passes": 5}):
        found = evaluate(request(place, data=str(own), ladder=4, **model)).result
        (excluded,) = found.exclusions
        assert (excluded.reason, excluded.count) == ("copy of another image", 7)
        assert excluded.examples[0] == "class04/0z.png"
        assert (found.about.queries, found.about.gallery) == (20, 20)
    plain = write_pictures(tmp_path / "plain", classes=8)
    found, wanted = (
        evaluate(request(place, data=str(data), ladder=4)).result for data in (own, plain)
    )
    assert found.rankings == wanted.rankings
    assert found.ladder == wanted.ladder


def test_dropout_gives_a_point_model_a_variance(place: Path):
    point = evaluate(request(place, model=place / "point")).result
    dropped = evaluate(request(place, model=place / "point", passes=5)).result
    assert "query_var" not in point.rankings["means"].signals
    assert "query_var" in dropped.rankings["expected"].signals
    assert dropped.about.family == "mc-dropout"


def test_the_ladder_asks_worse_pictures(place: Path):
    ladder = evaluate(request(place, ladder=6)).result.ladder
    assert ladder.queries == 6
    clean = [rung for rung in ladder.rungs if rung.level == 0]
    assert {rung.recall for rung in clean} == {clean[0].recall}
    assert {rung.kind for rung in ladder.rungs} == {"blur", "occlusion", "crop", "noise"}


def test_a_second_run_does_not_encode_again(place: Path, tmp_path: Path, monkeypatch):
    first = evaluate(request(place), kept_in=tmp_path).result
    monkeypatch.setattr(Encoder, "encode_all", None)  # calling it would fail
    again = evaluate(request(place), kept_in=tmp_path).result
    assert again.rankings == first.rankings
    assert again.exclusions == first.exclusions


def test_changed_pictures_are_encoded_again(place: Path, tmp_path: Path):
    own = write_pictures(tmp_path / "own", classes=8)
    evaluate(request(place, data=str(own)), kept_in=tmp_path / "kept")
    (own / "class07" / "0.png").write_bytes((own / "class06" / "0.png").read_bytes() + b"\0")
    evaluate(request(place, data=str(own)), kept_in=tmp_path / "kept")
    assert len(list((tmp_path / "kept").glob("*.safetensors"))) == 2


def test_another_runtime_encodes_for_itself(
    exported: Path, place: Path, tmp_path: Path, monkeypatch
):
    """In float32 it has the fingerprint of torch, whose embeddings are in the folder already."""
    ran: list[str] = []
    for encoder in (Encoder, OnnxEncoder):
        embed = encoder.embed_pixels
        monkeypatch.setattr(
            encoder,
            "embed_pixels",
            lambda self, pixels, embed=embed: ran.append(self.runtime) or embed(self, pixels),
        )
    for runtime, own in (("torch", {"torch"}), ("onnx", {"onnx"}), ("onnx-int8", {"onnx"})):
        for encoded in (own, set()):
            ran.clear()
            evaluate(request(place, model=exported, runtime=runtime), kept_in=tmp_path)
            assert set(ran) == encoded
    assert len(list(tmp_path.glob("*.safetensors"))) == 3


def test_damaged_embeddings_of_an_earlier_run_are_made_again(place: Path, tmp_path: Path):
    first = evaluate(request(place), kept_in=tmp_path).result
    for kept in tmp_path.iterdir():
        kept.write_bytes(kept.read_bytes()[:10])
    assert evaluate(request(place), kept_in=tmp_path).result.rankings == first.rankings


def test_a_full_disk_is_one_clear_error(place: Path, tmp_path: Path, monkeypatch):
    folder = ReportFolder(tmp_path / "report")
    folder.make()
    evaluation = evaluate(request(place))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidFile, match=r"cannot write .*queries.csv: No space left"):
        folder.write(evaluation)
    assert not list(folder.folder.iterdir())


def test_foreign_data_must_be_foreign(place: Path):
    with pytest.raises(InvalidArgument, match="shares images"):
        evaluate(request(place, foreign=str(place / "own")))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"part": "tset"}, "did you mean 'test'"),
        ({"model": Path("nowhere")}, "holds no model"),
        ({"data": "nowhere"}, "no such file or folder"),
        ({"passes": 5}, "an encoder with dropout"),
    ],
)
def test_what_cannot_be_evaluated_is_one_clear_error(place: Path, changes: dict, match: str):
    with pytest.raises(SurefindError, match=match):
        evaluate(request(place, **changes))


@pytest.mark.parametrize("table", ["csv", "parquet"])
def test_a_report_folder_holds_everything(place: Path, tmp_path: Path, table: str):
    folder = ReportFolder(tmp_path / "report", table=table)
    folder.make()
    evaluation = evaluate(request(place, foreign=str(place / "foreign"), ladder=3))
    folder.write(evaluation)
    assert EvalResult.read(folder.results) == evaluation.result
    assert len(QueryTable.read(folder.queries)) == 35
    assert {path.suffix for path in folder.figures.iterdir()} == {".png"}
    assert len(list(folder.figures.iterdir())) >= 5
    recall = evaluation.result.rankings["means"].recall["1"].value
    assert f"{100 * recall:.1f} %" in folder.page.read_text()


def test_pictures_of_one_label_can_be_reported_too(place: Path, tmp_path: Path):
    """Nothing is wrong, and nobody is left to fit a probability to."""
    own = write_pictures(tmp_path / "own", classes=1)
    evaluation = evaluate(request(place, data=f"folder:{own}", split="all"))
    assert evaluation.result.rankings["means"].signals["query_var"].ece is None
    folder = ReportFolder(tmp_path / "report")
    folder.make()
    folder.write(evaluation)
    assert folder.page.is_file()
