"""Thumbnails as pictures: their size, their pixels, and nothing that the file carried."""

import io

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from surefind.images.decode import ImageRejected
from surefind.serve.gallery.drawing import as_jpeg, as_png, draw_thumbnail, shrunk

SECRET = b"taken at home"


def opened(content: bytes) -> Image.Image:
    picture = Image.open(io.BytesIO(content))
    picture.load()
    return picture


def file_of(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def exif(orientation: int = 1) -> Image.Exif:
    tags = Image.Exif()
    tags[0x0112], tags[0x010E] = orientation, SECRET.decode()
    return tags


def telltale_jpeg() -> bytes:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = Image.new("RGB", (300, 200), "red")
    return file_of(picture, "JPEG", exif=exif(), icc_profile=profile, comment=SECRET)


def telltale_png() -> bytes:
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", SECRET.decode())
    return file_of(Image.new("RGB", (300, 200), "red"), pnginfo=text, exif=exif())


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (5000, 3), (128, 129), (257, 257)])
def test_the_longest_side_is_the_one_asked_for(size):
    drawn = opened(draw_thumbnail(file_of(Image.new("RGB", size)), 128))
    assert max(drawn.size) == 128
    assert min(drawn.size) == max(1, round(128 * min(size) / max(size)))


@pytest.mark.parametrize("size", [(100, 80), (65, 65), (256, 10)])
def test_a_picture_that_fits_keeps_its_size(size):
    assert opened(draw_thumbnail(file_of(Image.new("RGB", size)), 256)).size == size


@pytest.mark.parametrize(
    ("size", "drawn"), [((32, 32), (256, 256)), ((20, 10), (240, 120)), ((1, 1), (256, 256))]
)
def test_a_tiny_picture_is_enlarged_by_a_whole_factor(size, drawn):
    assert opened(draw_thumbnail(file_of(Image.new("RGB", size)), 256)).size == drawn


def test_an_enlarged_pixel_is_a_square_of_one_colour():
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32), dtype=np.uint8)
    drawn = np.asarray(opened(draw_thumbnail(file_of(Image.fromarray(pixels)), 256)).convert("L"))
    assert np.abs(drawn.astype(int) - pixels.repeat(8, 0).repeat(8, 1)).max() <= 4


@pytest.mark.parametrize("content", [telltale_jpeg(), telltale_png()], ids=["jpeg", "png"])
def test_nothing_but_pixels_is_left_of_a_file(content):
    assert SECRET in content
    drawn = draw_thumbnail(content, 256)
    assert SECRET not in drawn
    picture = opened(drawn)
    assert picture.format == "JPEG"
    assert not picture.getexif()
    assert set(picture.info) == {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    kinds = {drawn[at + 1] for at in range(2, 20) if drawn[at] == 0xFF}
    assert not kinds & {0xE1, 0xE2, 0xED, 0xFE}  # EXIF, ICC, IPTC, comment


def test_a_turned_picture_is_drawn_upright():
    content = file_of(Image.new("RGB", (300, 200), "red"), "JPEG", exif=exif(orientation=6))
    assert opened(draw_thumbnail(content, 256)).size == (171, 256)


def test_of_an_animation_the_first_frame_is_drawn():
    frames = [Image.new("RGB", (100, 100), colour) for colour in ("red", "blue")]
    content = file_of(frames[0], "GIF", save_all=True, append_images=frames[1:])
    drawn = opened(draw_thumbnail(content, 128))
    assert getattr(drawn, "n_frames", 1) == 1
    assert drawn.getpixel((50, 50)) == pytest.approx((254, 0, 0), abs=2)


@pytest.mark.parametrize("content", [b"", b"no image", telltale_jpeg()[:400]])
def test_what_cannot_be_decoded_is_rejected(content):
    with pytest.raises(ImageRejected):
        draw_thumbnail(content, 128)


def test_png_keeps_every_pixel():
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    assert np.array_equal(np.asarray(opened(as_png(Image.fromarray(pixels)))), pixels)


def test_coloured_edges_keep_their_colour():
    pixels = np.full((16, 16, 3), 255, dtype=np.uint8)
    pixels[:, 1::2] = (255, 0, 0)
    drawn = np.asarray(opened(as_jpeg(Image.fromarray(pixels), quality=95))).astype(int)
    assert np.abs(drawn - pixels).max() <= 12


def test_only_what_is_too_large_shrinks():
    small, large = Image.new("RGB", (10, 5)), Image.new("RGB", (400, 200))
    assert shrunk(small, 10) is small
    assert shrunk(large, 100).size == (100, 50)
