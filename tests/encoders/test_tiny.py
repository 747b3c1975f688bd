"""The small network of our own."""

import pytest
import torch

from surefind.encoders.tiny import TinyConvNet


@pytest.mark.parametrize(("size", "side"), [(32, 4), (40, 5)])
def test_small_pictures_become_a_small_map(size, side):
    assert TinyConvNet(channels=64)(torch.rand(2, 3, size, size)).shape == (2, 64, side, side)


def test_features_of_an_image_do_not_depend_on_its_batch():
    net, pixels = TinyConvNet(), torch.rand(4, 3, 32, 32)
    torch.testing.assert_close(net(pixels)[:1], net(pixels[:1]))
    assert not list(net.buffers())
