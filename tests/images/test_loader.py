"""Batches in order, bad images skipped and reported, threads that end."""

import io
import threading
from pathlib import Path

import pytest
import torch
from PIL import Image

from surefind.errors import InvalidArgument, SurefindError
from surefind.images import loader as loading
from surefind.images.decode import decode
from surefind.images.loader import Loader, Rejection, file_digests
from surefind.images.preprocess import Preprocessing

SMALL = Preprocessing(size=8).resize_image


def jpeg(shade: int = 0) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (20, 12), (shade % 256, shade // 256 % 256, 0)).save(file, "JPEG", quality=95)
    return file.getvalue()


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("surefind-images")]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches_come_in_the_order_of_the_sources(workers: int, prefetch: int):
    sources = [jpeg(13 * n) for n in range(23)]
    batches = list(Loader(sources, SMALL, batch_size=5, workers=workers, prefetch=prefetch))
    assert [len(batch.rows) for batch in batches] == [5, 5, 5, 5, 3]
    assert torch.cat([batch.rows for batch in batches]).tolist() == list(range(23))
    expected = torch.stack([SMALL(decode(source)) for source in sources])
    assert torch.equal(torch.cat([batch.pixels for batch in batches]), expected)
    assert batches[0].pixels.dtype == torch.uint8 and batches[0].rows.dtype == torch.int64


def test_one_bad_image_in_a_thousand_is_skipped_and_named(tmp_path: Path):
    for n in range(1000):
        (tmp_path / f"{n:03}.jpg").write_bytes(jpeg(n))
    bad = tmp_path / "617.jpg"
    bad.write_bytes(bad.read_bytes()[:200])
    loader = Loader(sorted(tmp_path.iterdir()), SMALL)
    rows = torch.cat([batch.rows for batch in loader])
    assert rows.tolist() == [n for n in range(1000) if n != 617]
    (rejection,) = loader.rejected
    assert rejection[:2] == (617, str(bad))


def test_a_batch_of_bad_images_only_is_left_out():
    sources = [jpeg()] * 4 + [b"bad"] * 4 + [jpeg()] * 4
    loader = Loader(sources, SMALL, batch_size=4, max_bad_share=0.5)
    assert [batch.rows.tolist() for batch in loader] == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert loader.rejected == [Rejection(row, "image", "not an image") for row in range(4, 8)]


@pytest.mark.parametrize(
    ("bad", "total", "share", "stops"),
    [
        (1, 3, 0.05, True),
        (1, 19, 0.05, True),
        (1, 20, 0.05, False),
        (2, 39, 0.05, True),
        (29, 100, 0.29, False),
        (1, 50, 0.0, True),
        (3, 3, 1.0, False),
    ],
)
def test_more_than_the_allowed_share_stops(bad: int, total: int, share: float, stops: bool):
    sources = [b"bad"] * bad + [jpeg()] * (total - bad)
    loader = Loader(sources, SMALL, max_bad_share=share)
    if stops:
        with pytest.raises(SurefindError, match="images cannot be used"):
            list(loader)
    else:
        assert sum(len(batch.rows) for batch in loader) == total - bad
        assert len(loader.rejected) == bad


def test_the_error_names_count_paths_reasons_and_remedy(tmp_path: Path):
    missing = [tmp_path / f"{n}.jpg" for n in range(8)]
    with pytest.raises(SurefindError) as caught:
        list(Loader([*missing, *[jpeg()] * 92], SMALL, max_bad_share=0.07))
    text = str(caught.value)
    assert text.startswith("8 of 100 images cannot be used, at most 7.00% may be:")
    assert f"{missing[0]}: no such file" in text and str(missing[5]) not in text
    assert "and 3 more" in text and "fix: repair or remove them" in text


def test_leaving_early_ends_the_threads():
    for _ in Loader([jpeg()] * 200, SMALL, batch_size=4, workers=2):
        assert threads()
        break
    assert not threads()


def test_only_so_many_batches_are_made_ahead(monkeypatch: pytest.MonkeyPatch):
    decoded = []
    monkeypatch.setattr(loading, "decode", lambda s, p: decoded.append(1) or decode(s, p))
    batches = iter(Loader([jpeg()] * 100, SMALL, batch_size=5, workers=2, prefetch=2))
    for taken in range(1, 10):
        next(batches)
        assert len(decoded) <= 5 * (taken + 2)


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"workers": 0}, {"prefetch": -1}, {"max_bad_share": 1.5}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, float]):
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        Loader([], SMALL, **wrong)  # type: ignore[arg-type]


def test_only_files_of_equal_size_are_read(tmp_path, monkeypatch):
    contents = {"a": b"one", "b": b"two", "c": b"three", "d": b"one", "e": b"other"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    read, digest_of = [], loading.digest_of
    monkeypatch.setattr(loading, "digest_of", lambda file: read.append(file.name) or digest_of(file))
    (tmp_path / "f").write_bytes(b"of a size of its own")
    found = file_digests([tmp_path / name for name in "abcdefx"])
    assert read == ["a", "b", "c", "d", "e"]
    assert found[0] == found[3] != "" and len(set(found[:3])) == 3
    assert found[5:] == ["", ""]
