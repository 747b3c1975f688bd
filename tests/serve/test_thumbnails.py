"""Thumbnails and example queries: size, pixels, and no metadata."""

import io

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from surefind.errors import InvalidFile
from surefind.serve.gallery import MAX_SAMPLES, draw_thumbnail, read_samples

SECRET = b"taken at home"


def opened(content: bytes) -> Image.Image:
    picture = Image.open(io.BytesIO(content))
    picture.load()
    return picture


def file_of(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def exif() -> Image.Exif:
    tags = Image.Exif()
    tags[0x010E] = SECRET.decode()
    return tags


def telltale_jpeg(size: tuple[int, int] = (300, 200)) -> bytes:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = Image.new("RGB", size, "red")
    return file_of(picture, "JPEG", exif=exif(), icc_profile=profile, comment=SECRET)


def telltale_png() -> bytes:
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", SECRET.decode())
    return file_of(Image.new("RGB", (300, 200), "red"), pnginfo=text, exif=exif())


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (5000, 3), (128, 129)])
def test_the_longest_side_is_the_requested_one(size):
    drawn = opened(draw_thumbnail(file_of(Image.new("RGB", size)), 128))
    assert max(drawn.size) == 128
    assert min(drawn.size) == max(1, round(128 * min(size) / max(size)))


@pytest.mark.parametrize(
    ("size", "drawn"),
    [
        ((100, 80), (100, 80)),
        ((65, 65), (65, 65)),
        ((32, 32), (256, 256)),
        ((20, 10), (240, 120)),
        ((1, 1), (256, 256)),
    ],
)
def test_small_images_keep_their_size_and_tiny_ones_are_enlarged_by_an_integer(size, drawn):
    assert opened(draw_thumbnail(file_of(Image.new("RGB", size)), 256)).size == drawn


def test_an_enlarged_pixel_is_a_square():
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32), dtype=np.uint8)
    drawn = np.asarray(opened(draw_thumbnail(file_of(Image.fromarray(pixels)), 256)).convert("L"))
    assert np.abs(drawn.astype(int) - pixels.repeat(8, 0).repeat(8, 1)).max() <= 4


@pytest.mark.parametrize("content", [telltale_jpeg(), telltale_png()], ids=["jpeg", "png"])
def test_metadata_is_removed(content):
    assert SECRET in content
    drawn = draw_thumbnail(content, 256)
    assert SECRET not in drawn
    picture = opened(drawn)
    assert picture.format == "JPEG" and not picture.getexif()
    assert set(picture.info) == {"jfif", "jfif_version", "jfif_unit", "jfif_density"}


# samples


def write(path, size=(30, 20)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


def test_samples_are_lossless_unless_they_are_large_and_have_no_metadata(tmp_path):
    pixels = write(tmp_path / "a" / "clear.png")
    write(tmp_path / "b" / "large.png", size=(3000, 1500))
    (tmp_path / "c.jpg").write_bytes(telltale_jpeg())
    (name, clear), (_, large), (_, telltale) = read_samples(tmp_path)
    assert name == "a/clear.png" and np.array_equal(np.asarray(opened(clear)), pixels)
    assert opened(large).size == (1024, 512)
    assert SECRET not in telltale and not opened(telltale).getexif()


def test_bad_samples_are_skipped_with_a_reason_and_the_number_is_limited(tmp_path, caplog):
    for number in range(MAX_SAMPLES + 3):
        write(tmp_path / f"{number:02d}.png")
    (tmp_path / "00.png").write_bytes(b"no picture")
    names = [name for name, _ in read_samples(tmp_path)]
    assert names == [f"{number:02d}.png" for number in range(1, MAX_SAMPLES + 1)]
    assert "sample skipped: 00.png: not an image" in caplog.text


def test_a_folder_without_usable_samples_is_an_error(tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(InvalidFile, match="no usable image.*bad.jpg: not an image"):
        read_samples(tmp_path)
