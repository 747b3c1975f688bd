"""Many images to embeddings: order, bad images, threads, modes."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from surefind.encoders import Backbone, Encoder, EncoderConfig, image_encoder
from surefind.encoders.backbone import fold_batch_norm
from surefind.encoders.image_encoder import single_core_pool
from surefind.encoders.onnx import OnnxEncoder
from surefind.images.decode import ImageRejected, decode
from surefind.images.loader import TooManyRejected
from surefind.images.preprocess import Preprocessing


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_embeddings_are_those_of_the_prepared_pixels(tiny, pictures):
    encoder = tiny().eval()
    encoded = encoder.encode(pictures)
    pixels = torch.stack([encoder.preprocessing.resize_image(decode(p)) for p in pictures])
    expected = encoder(encoder.prepare(pixels))
    torch.testing.assert_close(encoded.mean, expected.mean)
    torch.testing.assert_close(encoded.var, expected.var)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_order_is_kept_whatever_the_batches_and_threads(tiny, pictures, two_threads, batch_size):
    encoder = tiny()
    together = encoder.encode(pictures, batch_size=batch_size, workers=3)
    for row, picture in enumerate(pictures):
        torch.testing.assert_close(together[row].mean, encoder.encode(picture).mean)
    assert torch.get_num_threads() == 2


def test_one_image_needs_no_list(tiny, pictures, tmp_path):
    encoder, picture = tiny(), pictures[0]
    picture.save(tmp_path / "picture.png")
    path = tmp_path / "picture.png"
    expected = encoder.encode([picture]).mean
    for source in (picture, path, str(path), path.read_bytes()):
        assert torch.equal(encoder.encode(source).mean, expected)


@pytest.mark.parametrize("family", ["gaussian", "von-mises-fisher", "point"])
def test_no_images_are_no_embeddings(tiny, family):
    encoder = tiny(family=family)
    nothing = encoder.encode([])
    assert len(nothing) == 0 and nothing.dim == encoder.config.dim


def test_encode_names_the_first_bad_image(tiny, pictures, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"not an image")
    with pytest.raises(ImageRejected, match=r"bad.jpg \(row 2\)"):
        tiny().encode([*pictures[:2], bad, pictures[3], tmp_path / "none.jpg"])


def test_encode_all_skips_and_reports_bad_images(tiny, pictures, tmp_path):
    encoder, done = tiny(), []
    sources = [*pictures[:3], tmp_path / "none.jpg", *pictures[3:]]
    encoded = encoder.encode_all(sources, max_bad_share=0.2, progress=done.append, batch_size=2)
    assert encoded.rows.tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert [(bad.row, bad.reason) for bad in encoded.rejected] == [(3, "no such file")]
    torch.testing.assert_close(encoded.embeddings.mean, encoder.encode(pictures).mean)
    assert done == sorted(done) and done[-1] == len(sources)


def test_encode_all_stops_when_too_many_are_bad(tiny, pictures, two_threads):
    with pytest.raises(TooManyRejected):
        tiny().encode_all([*pictures, b"", b"", b""], max_bad_share=0.1)
    assert torch.get_num_threads() == 2


def test_modes_are_restored_and_dropout_is_off_meanwhile(tiny, pictures):
    encoder = tiny(head_dropout=0.5).train()
    encoder.mean_head.eval()
    before = [part.training for part in encoder.modules()]
    assert torch.equal(encoder.encode(pictures).mean, encoder.encode(pictures).mean)
    assert [part.training for part in encoder.modules()] == before


def test_embeddings_can_be_used_in_training_afterwards(tiny, pictures):
    mean = tiny().encode(pictures).mean
    weight = torch.ones(mean.shape[1], requires_grad=True)
    (mean @ weight).sum().backward()
    assert weight.grad is not None and not mean.is_inference()


def test_workers_keep_to_one_core_and_nobody_else_does(two_threads):
    with single_core_pool(3) as pool, ThreadPoolExecutor(1) as elsewhere:
        inside = [pool.submit(torch.get_num_threads).result() for _ in range(6)]
        assert set(inside) == {1}
        assert elsewhere.submit(torch.get_num_threads).result() == 2
    assert torch.get_num_threads() == 2


def frames(paths):
    import pandas
    import pyarrow

    columns = {"path": paths, "price": [1.5] * len(paths)}
    return pandas.DataFrame(columns), pyarrow.table(columns)


def test_images_are_taken_as_people_have_them(tiny, pictures, tmp_path):
    encoder, arrays = tiny(), np.stack([np.asarray(picture) for picture in pictures])
    expected = encoder.encode(pictures).mean
    for row, picture in enumerate(pictures):
        picture.save(tmp_path / f"{row}.png")
    paths = [str(tmp_path / f"{row}.png") for row in range(len(pictures))]
    (tmp_path / "list.csv").write_text("path\n" + "\n".join(f"{n}.png" for n in range(9)))
    given = [
        arrays,
        arrays / 255,
        torch.from_numpy(arrays).permute(0, 3, 1, 2),
        (picture for picture in pictures),
        *frames(paths),
        tmp_path,
        str(tmp_path / "list.csv"),
    ]
    for images in given:
        torch.testing.assert_close(encoder.encode(images).mean, expected)


def test_a_generator_is_read_piece_by_piece_and_a_bad_image_has_its_row(tiny, pictures, monkeypatch):
    monkeypatch.setattr(image_encoder, "_AT_A_TIME", 4)
    encoder = tiny()
    torch.testing.assert_close(encoder.encode(iter(pictures)).mean, encoder.encode(pictures).mean)
    with pytest.raises(ImageRejected, match=r"image \(row 9\): not an image"):
        encoder.encode(iter([*pictures, b"hello"]))


def test_encoders_are_pickled_for_workers(tiny, pictures, exported):
    for encoder in (tiny(), OnnxEncoder.load(exported, "int8")):
        copy = pickle.loads(pickle.dumps(encoder))
        assert copy.fingerprint == encoder.fingerprint
        assert torch.equal(copy.encode(pictures).mean, encoder.encode(pictures).mean)


def test_batch_norm_is_folded_for_many_images_and_only_where_that_is_right():
    preprocessing = Preprocessing(size=32)
    encoder = Encoder.create(EncoderConfig("mobilenetv2_100", dim=8, preprocessing=preprocessing)).eval()
    for norm in encoder.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(norm.running_var, 0.5, 2)
            torch.nn.init.normal_(norm.running_mean)
    many = encoder.for_many()
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in many.modules())
    assert any(isinstance(part, torch.nn.BatchNorm2d) for part in encoder.modules())
    pixels = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(
            many.embed_pixels(pixels).mean, encoder.embed_pixels(pixels).mean, atol=1e-5, rtol=1e-4
        )
        for part in encoder.backbone.parameters():  # as training does: nothing folded is kept
            part.data.mul_(0.5)
        torch.testing.assert_close(
            encoder.for_many().embed_pixels(pixels).mean, encoder.embed_pixels(pixels).mean, atol=1e-5, rtol=1e-4
        )


class Swapped(torch.nn.Module):
    """The norm is defined after the convolution, and applied before it."""

    num_features = 3

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 3, 3), torch.nn.BatchNorm2d(3)
        torch.nn.init.uniform_(self.norm.running_var, 0.1, 0.5)

    def forward_features(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.conv(self.norm(pixels))


def test_batch_norm_that_comes_first_is_not_folded():
    backbone = Backbone(Swapped(), name="swapped").eval()
    assert fold_batch_norm(backbone, 16) is backbone
