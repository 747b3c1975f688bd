"""A model and pictures through the whole of `evaluate`; black bars; corrupted queries."""

import errno
import io
import os
from contextlib import nullcontext
from math import isnan
from pathlib import Path

import numpy as np
import pytest
import torch
from class_folders import write_pictures
from PIL import Image
from scipy.stats import spearmanr

from surefind.embeddings import Embeddings, Gaussians
from surefind.encoders import Encoder
from surefind.encoders.image_encoder import ImageEncoder
from surefind.encoders.onnx import OnnxEncoder
from surefind.errors import InvalidFile, SurefindError
from surefind.images.catalog import Catalog
from surefind.images.corruptions import KINDS, LEVELS, corrupt
from surefind.images.preprocess import Preprocessing
from surefind.reports.evaluate import (
    Request,
    Searched,
    bar_widths,
    bars_auroc,
    corruption_ladder,
    evaluate,
    mean_rank_correlation,
)
from surefind.reports.report import ReportFolder
from surefind.reports.result import EvalResult, QueryTable, Rung


def picture(
    random: np.random.Generator, *, top: int = 0, bottom: int = 0, left: int = 0, right: int = 0
) -> Image.Image:
    """40 high and 50 wide, never black but in its bars."""
    pixels = random.integers(40, 256, (40, 50, 3), dtype=np.uint8)
    pixels[:top] = pixels[40 - bottom :] = pixels[:, :left] = pixels[:, 50 - right :] = 0
    return Image.fromarray(pixels)


def folder(path: Path, count: int, *, seed: int, bars: tuple[int, int]) -> list[Path]:
    """Pictures with bars of random height at the top and bottom."""
    random = np.random.default_rng(seed)
    path.mkdir()
    files = [path / f"{number}.png" for number in range(count)]
    for file in files:
        top, bottom = random.integers(*bars, size=2)
        picture(random, top=top, bottom=bottom).save(file)
    return files


def test_each_side_is_measured_as_a_share_and_one_bright_pixel_ends_a_bar():
    framed = picture(np.random.default_rng(0), top=4, bottom=8, left=5, right=10)
    assert bar_widths(np.asarray(framed)).tolist() == [0.1, 0.2, 0.1, 0.2]
    pixels = np.zeros((40, 500, 3), np.uint8)
    assert bar_widths(pixels).tolist() == [1, 1, 1, 1]
    pixels[10, 250] = 60
    assert bar_widths(pixels)[0] == 0.25


def test_bars_survive_jpeg():
    ramp = np.linspace(40, 250, 240 * 320 * 3).reshape(240, 320, 3).astype(np.uint8)
    ramp[:48] = ramp[192:] = 0
    file = io.BytesIO()
    Image.fromarray(ramp).save(file, "JPEG", quality=50)
    assert bar_widths(np.asarray(Image.open(file))) == pytest.approx([0.2, 0.2, 0, 0], abs=0.01)


def test_data_are_separated_where_they_are_padded_differently(tmp_path: Path):
    plain = folder(tmp_path / "plain", 40, seed=0, bars=(0, 3))
    boxed = folder(tmp_path / "boxed", 40, seed=1, bars=(6, 12))
    assert bars_auroc(plain, boxed) > 0.99
    assert bars_auroc(boxed, plain) > 0.99
    alike = [folder(tmp_path / str(n), 150, seed=n, bars=(0, 10)) for n in range(2)]
    assert bars_auroc(*alike) == pytest.approx(0.5, abs=0.1)


def test_too_few_images_give_no_number(tmp_path: Path):
    many = folder(tmp_path / "many", 20, seed=0, bars=(0, 3))
    few = folder(tmp_path / "few", 10, seed=1, bars=(6, 12))
    assert not isnan(bars_auroc(many, few))
    assert isnan(bars_auroc(many, few[1:]))
    few[0].write_bytes(b"no image")  # skipped
    assert isnan(bars_auroc(many, [*few, tmp_path / "missing.png"]))


def request(place: Path, **changes) -> Request:
    return Request(**{"model": place / "gaussian", "data": str(place / "own")} | changes)


def test_an_evaluation_records_model_data_and_unreadable_pictures(place: Path):
    result = evaluate(request(place, foreign=str(place / "foreign"))).result
    about, (excluded,) = result.about, result.exclusions
    assert (about.queries, about.gallery, about.classes) == (20, 20, 4)
    assert about.fingerprint == Encoder.load(place / "gaussian").fingerprint
    assert about.foreign_queries == 15
    assert about.resampled_classes == 4
    assert torch.__version__.startswith(about.versions["torch"])
    assert (excluded.count, excluded.examples) == (1, ("class07/broken.png",))
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
    found, wanted = (evaluate(request(place, data=str(data), ladder=4)).result for data in (own, plain))
    assert found.rankings == wanted.rankings
    assert found.ladder == wanted.ladder


def test_dropout_gives_a_point_model_a_variance(place: Path):
    point = evaluate(request(place, model=place / "point")).result
    dropped = evaluate(request(place, model=place / "point", passes=5)).result
    assert "query_var" not in point.rankings["means"].signals
    assert "query_var" in dropped.rankings["expected"].signals
    assert dropped.about.family == "mc-dropout"


def test_the_ladder_searches_with_corrupted_queries(place: Path):
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


def test_another_runtime_encodes_for_itself(exported: Path, place: Path, tmp_path: Path, monkeypatch):
    """In float32 it has the fingerprint of torch, whose embeddings are in the folder already."""
    ran: list[str] = []
    for encoder in (Encoder, OnnxEncoder):
        embed = encoder.embed_pixels
        monkeypatch.setattr(
            encoder, "embed_pixels", lambda self, pixels, embed=embed: ran.append(self.runtime) or embed(self, pixels)
        )
    for runtime, own in (("torch", {"torch"}), ("onnx", {"onnx"}), ("onnx-int8", {"onnx"})):
        for encoded in (own, set()):
            ran.clear()
            evaluate(request(place, model=exported, runtime=runtime), kept_in=tmp_path)
            assert set(ran) == encoded
    assert len(list(tmp_path.glob("*.safetensors"))) == 3


def test_changed_pictures_and_damaged_embeddings_are_encoded_again(place: Path, tmp_path: Path):
    own, folder = write_pictures(tmp_path / "own", classes=8), tmp_path / "kept"
    first = evaluate(request(place, data=str(own)), kept_in=folder).result
    for kept in folder.iterdir():
        kept.write_bytes(kept.read_bytes()[:10])
    assert evaluate(request(place, data=str(own)), kept_in=folder).result.rankings == first.rankings
    (own / "class07" / "0.png").write_bytes((own / "class06" / "0.png").read_bytes() + b"\0")
    evaluate(request(place, data=str(own)), kept_in=folder)
    assert len(list(folder.glob("*.safetensors"))) == 2


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"split": "tset"}, "did you mean 'test'"),
        ({"passes": 5}, "an encoder with dropout"),
        ({"foreign": "OWN"}, "shares images"),
    ],
)
def test_what_cannot_be_evaluated_is_one_clear_error(place: Path, changes: dict, match: str):
    changes = {key: str(place / "own") if value == "OWN" else value for key, value in changes.items()}
    with pytest.raises(SurefindError, match=match):
        evaluate(request(place, **changes))


def test_a_full_disk_is_one_clear_error(place: Path, tmp_path: Path, monkeypatch):
    folder = ReportFolder(tmp_path)
    evaluation = evaluate(request(place))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidFile, match=r"cannot write .*queries.csv: No space left"):
        folder.write(evaluation)
    assert not list(folder.folder.iterdir())


def test_a_report_folder_holds_everything(place: Path, tmp_path: Path):
    folder = ReportFolder(tmp_path / "report")
    evaluation = evaluate(request(place, foreign=str(place / "foreign"), ladder=3))
    folder.write(evaluation)
    assert EvalResult.read(folder.results) == evaluation.result
    assert len(QueryTable.read(folder.queries)) == 35
    assert {path.suffix for path in folder.figures.iterdir()} == {".png"}
    assert len(list(folder.figures.iterdir())) >= 5
    recall = evaluation.result.rankings["means"].retrieval["R@1"].value
    assert f"{100 * recall:.1f} %" in folder.page.read_text()


def test_pictures_of_one_label_can_be_reported_too(place: Path, tmp_path: Path):
    """Nothing is wrong, and nobody is left to fit a probability to."""
    own = write_pictures(tmp_path / "own", classes=1)
    evaluation = evaluate(request(place, data=f"folder:{own}", split="all"))
    assert evaluation.result.rankings["means"].signals["query_var"].get("ece") is None
    ReportFolder(tmp_path / "report").write(evaluation)


class Contrast(ImageEncoder):
    """The mean colour as mean, and a variance that rises as neighbouring pixels differ less."""

    preprocessing = Preprocessing(size=24, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    device = torch.device("cpu")
    fingerprint = "contrast"
    has_variance = True

    def embed_pixels(self, pixels: torch.Tensor) -> Gaussians:
        steps = (pixels[..., 1:] - pixels[..., :-1]).abs().mean((1, 2, 3))
        return Gaussians(pixels.mean((2, 3)), 1 / (0.01 + steps))

    def empty(self) -> Gaussians:
        return Gaussians(torch.empty(0, 3), torch.empty(0))

    def evaluating(self) -> nullcontext[None]:
        return nullcontext()


def search(queries: Embeddings, rows: np.ndarray) -> Searched:
    """A query is right while its variance is small, and even rows are surer than odd ones."""
    var = queries.spread.double().numpy()
    return var < 15, {"query_var": var, "odd_var": var + rows % 2}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    random = np.random.default_rng(0)
    names = [f"{row}.png" for row in range(9)]
    for name in names:
        pixels = random.integers(0, 256, (12, 18, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((54, 36)).save(tmp_path / name)
    return Catalog(tmp_path, tuple(names))


def test_every_rung_agrees_with_a_plain_loop(catalog: Catalog):
    rows = np.array([1, 2, 3, 6, 8])
    ladder = corruption_ladder(Contrast(), catalog, rows=rows, search=search, seed=5)
    expected = []
    for kind in KINDS:
        for level in range(LEVELS + 1):
            answers = []
            for row in rows:
                image = Image.open(catalog.file(row)).convert("RGB")
                image = corrupt(image, kind, level, seed=(5, int(row)))
                answers.append(search(Contrast().encode([image]), np.array([row])))
            medians = {
                name: np.median([signals[name][0] for _, signals in answers]) for name in ("query_var", "odd_var")
            }
            recall = np.mean([right[0] for right, _ in answers])
            expected.append(Rung(kind, level, float(recall), medians))
    for rung, naive in zip(ladder.rungs, expected, strict=True):
        assert (rung.kind, rung.level, rung.recall) == (naive.kind, naive.level, naive.recall)
        assert rung.signals == pytest.approx(naive.signals, rel=1e-5)


def test_uncertainty_rises_with_blur_and_falls_with_noise_and_progress_is_complete(catalog: Catalog):
    seen: list[tuple[int, int]] = []
    ladder = corruption_ladder(
        Contrast(), catalog, rows=np.array([0, 1, 2]), search=search, progress=lambda *done: seen.append(done)
    )
    assert ladder.spearman["blur"]["query_var"] == pytest.approx(1)
    assert ladder.spearman["noise"]["query_var"] < 0
    assert set(ladder.spearman) == set(KINDS)
    assert seen == sorted(seen)
    assert seen[-1] == (63, 63)


def test_the_rank_correlation_agrees_with_scipy_query_by_query():
    uncertainty = np.random.default_rng(0).integers(0, 5, (6, 40)).astype(float)  # with ties
    naive = [spearmanr(range(6), query).statistic for query in uncertainty.T]
    assert mean_rank_correlation(uncertainty) == pytest.approx(np.mean(naive))
