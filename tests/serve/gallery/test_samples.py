"""Pictures to try: the first that can be used, without what their files carried."""

import io

import numpy as np
import pytest
from PIL import Image

from surefind.errors import InvalidFile
from surefind.serve.gallery.samples import MOST, Samples, gallery_samples

SECRET = b"taken at home"


def write(path, size=(30, 20), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)
    return pixels


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


def test_a_small_picture_keeps_every_pixel(tmp_path):
    pixels = write(tmp_path / "clear.png")
    (sample,) = Samples.read(tmp_path).pictures
    assert (sample.name, sample.media_type) == ("clear.png", "image/png")
    assert np.array_equal(np.asarray(opened(sample.content)), pixels)


def test_a_large_picture_becomes_a_smaller_jpeg(tmp_path):
    write(tmp_path / "large.png", size=(3000, 1500))
    (sample,) = Samples.read(tmp_path).pictures
    assert sample.media_type == "image/jpeg"
    assert (opened(sample.content).format, opened(sample.content).size) == ("JPEG", (2048, 1024))


def test_a_picture_of_more_than_a_megapixel_that_is_not_long_keeps_its_size(tmp_path):
    write(tmp_path / "square.png", size=(1001, 1000))
    (sample,) = Samples.read(tmp_path).pictures
    assert (sample.media_type, opened(sample.content).size) == ("image/jpeg", (1001, 1000))


@pytest.mark.parametrize("size", [(30, 20), (1200, 900)])
def test_what_a_file_carried_is_gone(tmp_path, size):
    exif = Image.Exif()
    exif[0x010E] = SECRET.decode()
    write(tmp_path / "a.jpg", size=size, comment=SECRET, exif=exif)
    assert SECRET in (tmp_path / "a.jpg").read_bytes()
    (sample,) = Samples.read(tmp_path).pictures
    assert SECRET not in sample.content
    assert not opened(sample.content).getexif()


def test_a_bad_picture_is_left_out_with_a_reason(tmp_path):
    write(tmp_path / "good.png")
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    (tmp_path / "empty.png").write_bytes(b"")
    samples = Samples.read(tmp_path)
    assert [sample.name for sample in samples.pictures] == ["good.png"]
    assert samples.left_out == ("bad.jpg: not an image", "empty.png: empty file")


def test_there_are_no_more_than_fit_on_a_page(tmp_path):
    for number in range(MOST + 3):
        write(tmp_path / f"{number:02d}.png")
    (tmp_path / "00.png").write_bytes(b"no picture")
    names = [sample.name for sample in Samples.read(tmp_path).pictures]
    assert names == [f"{number:02d}.png" for number in range(1, MOST + 1)]


def test_where_no_picture_can_be_used_an_error_says_why(tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(InvalidFile, match="none of its 1 pictures.*bad.jpg: not an image"):
        Samples.read(tmp_path)


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(InvalidFile, match="no such folder"):
        Samples.read(tmp_path / "none")


def test_rows_link_to_the_pictures_by_number(tmp_path):
    write(tmp_path / "a.png")
    write(tmp_path / "b" / "c.png")
    assert Samples.read(tmp_path).as_json() == [
        {
            "name": name,
            "image": f"/v1/samples/{number}",
            "item": None,
            "thumbnail": f"/v1/samples/{number}",
        }
        for number, name in enumerate(["a.png", "b/c.png"])
    ]


def test_samples_of_a_gallery_are_items_of_it(make_sketch):
    sketch = make_sketch(1)
    (row,) = gallery_samples(sketch)
    item = sketch.items[0]
    assert row == {
        "name": "000.png",
        "image": None,
        "item": item,
        "thumbnail": f"/v1/items/{item}/thumbnail",
    }


def test_samples_of_a_gallery_have_different_labels_while_there_are(make_sketch):
    sketch = make_sketch(9, labels=["a", "a", "a", "a", "b", "b", "c", "c", "c"])
    names = [row["name"] for row in gallery_samples(sketch, count=5)]
    assert names == ["000.png", "004.png", "006.png", "001.png", "005.png"]


def test_samples_of_a_gallery_without_labels_are_its_first_images(make_sketch):
    assert [row["name"] for row in gallery_samples(make_sketch(20))] == [
        f"{number:03d}.png" for number in range(8)
    ]


def test_an_empty_gallery_has_no_samples(make_sketch):
    assert gallery_samples(make_sketch(0)) == []
