"""Encoders by name, folder, file or function, and pretrained ones without training."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import surefind as sf
from surefind.encoders import backbone, from_callable, open_encoder
from surefind.encoders.encoder import POINT_VAR
from surefind.encoders.onnx import OnnxEncoder
from surefind.images.decode import decode

SMALL = "test_resnet"  # timm's smallest


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Random weights of a timm model, with its classifier, as the hub has them."""
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    torch.manual_seed(0)
    save_file(backbone._timm().create_model(SMALL).state_dict(), path)
    return path


def colours(images: list[Image.Image]) -> np.ndarray:
    """Mean colour and size of the image: a model that sees whole images."""
    return np.array([[*np.mean(image, axis=(0, 1)), image.width] for image in images])


@pytest.fixture
def coloured():
    return from_callable(colours, dim=4, name="colours v1")


def test_a_pretrained_backbone_is_pooled_by_gem_and_has_unit_means(weights, pictures):
    encoder = sf.Encoder.pretrained(SMALL, weights=weights)
    embeddings = encoder.encode(pictures)
    pixels = torch.stack([encoder.resize(decode(p)) for p in pictures])
    with torch.no_grad():
        features = encoder.features(encoder.prepare(pixels)).clamp(min=1e-6)
    pooled = features.pow(3).mean(dim=(2, 3)).pow(1 / 3)
    expected = torch.nn.functional.normalize(pooled, dim=1)
    torch.testing.assert_close(embeddings.mean, expected, rtol=1e-4, atol=1e-5)
    assert not encoder.has_variance and not encoder.training
    assert torch.equal(embeddings.var, torch.full((len(pictures),), POINT_VAR))


@pytest.mark.parametrize("name", ["mobilenetv2_100", "resnet50", "vit_base_patch14_dinov2"])
@pytest.mark.parametrize("size", [(50, 37), (41, 64)])
def test_images_are_prepared_as_by_timm(name, size):
    timm = backbone._timm()
    published = timm.get_pretrained_cfg(name).to_dict()
    transform = timm.data.create_transform(**timm.data.resolve_data_config(pretrained_cfg=published), is_training=False)
    noise = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    image = Image.fromarray(noise).resize((10 * size[0], 10 * size[1]), Image.Resampling.BICUBIC)
    ready = backbone.default_preprocessing(name)
    found = ready.normalise(ready.resize_image(decode(image))[None])[0]
    assert (found - transform(image)).abs().max() < 0.1  # rounding of a byte or two


def test_without_a_projection_the_dimension_is_that_of_the_backbone():
    with pytest.raises(sf.InvalidArgument, match="dim: expected 128, the channels of tiny"):
        sf.Encoder.create(sf.EncoderConfig("tiny", dim=64, family="point", projection=False))


def test_an_encoder_is_opened_as_itself_by_folder_and_by_name(tiny, model, weights):
    encoder = tiny()
    assert open_encoder(encoder) is encoder
    for place in (model, str(model)):
        assert open_encoder(place).fingerprint == sf.Encoder.load(model).fingerprint
    assert open_encoder(SMALL, weights).config.backbone == SMALL


def test_an_export_is_opened_by_its_folder_or_a_file_of_it(exported):
    assert open_encoder(exported / "onnx").precision == "fp32"
    for precision in ("fp32", "int8"):
        name = {"fp32": "model-*", "int8": "model_int8-*"}[precision]
        (file,) = (exported / "onnx").glob(name)
        opened = open_encoder(file)
        assert isinstance(opened, OnnxEncoder) and opened.precision == precision


def test_an_onnx_file_of_another_program_is_refused_with_a_way_out(exported, tmp_path):
    (file,) = (exported / "onnx").glob("model-*")
    shutil.copy(file, tmp_path / "other.onnx")
    with pytest.raises(sf.InvalidFile, match=r"(?s)not written by `surefind export`.*from_callable"):
        open_encoder(tmp_path / "other.onnx")


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("test_resnett", {}, "did you mean 'test_resnet'"),
        ("none.onnx", {}, "none.onnx: no such file"),
        (3, {}, "expected an encoder, a function or a name, got int"),
        (SMALL, {"runtime": "onnx"}, "runtime: expected torch for test_resnet"),
        ("some/folder", {"weights": "w.safetensors"}, "weights: expected the name of a timm"),
        ("tiny", {}, "weights: expected a file for 'tiny', of which no weights are published"),
        (lambda images: np.zeros(5), {}, r"a function that returns \(N, D\)"),
    ],
)
def test_what_cannot_be_opened_is_refused(model, options, message):
    with pytest.raises(sf.SurefindError, match=message):
        open_encoder(model, **options)


def test_a_function_gets_whole_images_and_its_vectors_get_length_one(coloured, pictures):
    wide = pictures[0].resize((80, 24))
    embeddings = coloured.encode([pictures[0], wide])
    expected = torch.from_numpy(colours([pictures[0], wide])).float()
    torch.testing.assert_close(embeddings.mean, torch.nn.functional.normalize(expected, dim=1))
    assert torch.equal(embeddings.var, torch.full((2,), POINT_VAR))
    raw = from_callable(colours, dim=4, name="raw", normalise=False)
    torch.testing.assert_close(raw.encode([pictures[0], wide]).mean, expected)


def test_a_function_is_called_with_few_images_at_a_time(pictures):
    seen = []

    def embed(images):
        seen.append(len(images))
        return torch.ones(len(images), 3, requires_grad=True)

    encoder = from_callable(embed, dim=3, name="counting", batch_size=4)
    assert not encoder.encode(pictures).mean.requires_grad
    assert seen == [4, 4, 1]


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros((1, 3)), r"shape \(1, 4\) from the function, got shape \(1, 3\)"),
        (np.full((1, 4), np.nan), "with others in it"),
    ],
)
def test_wrong_vectors_of_a_function_are_refused(pictures, vectors, message):
    encoder = from_callable(lambda images: vectors, dim=4, name="wrong")
    with pytest.raises(sf.InvalidArgument, match=message):
        encoder.encode(pictures[0])


@pytest.mark.parametrize("name", ["", "two\nlines", None])
def test_the_name_of_a_function_is_a_text(name):
    with pytest.raises(sf.InvalidArgument, match="name: expected a text in one line"):
        from_callable(colours, dim=4, name=name)


def test_an_index_of_a_function_needs_it_again_for_images_only(coloured, pictures, tmp_path):
    sf.Index.create(tmp_path, coloured, pictures).close()
    with sf.Index.open(tmp_path) as index:
        assert len(index.search(coloured.encode(pictures[:2]))) == 2
        with pytest.raises(sf.InvalidFile, match=r"(?s)made by 'colours v1'.*dim=4, name='colours"):
            index.search(pictures[0])
    with sf.Index.open(tmp_path, encoder=coloured) as index:
        assert index.search(pictures[3], k=1).hits[0].distance == pytest.approx(0, abs=1e-6)
    with pytest.raises(sf.InvalidArgument, match="colours v1:4, got callable:colours v2:4"):
        sf.Index.open(tmp_path, encoder=from_callable(colours, dim=4, name="colours v2"))


def test_the_dimension_of_a_plain_function_is_measured():
    assert open_encoder(colours).fingerprint == "callable:colours:4"
