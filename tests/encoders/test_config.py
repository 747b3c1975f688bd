"""Configurations are checked when they are made, and survive JSON."""

import json
from dataclasses import asdict

import pytest

from surefind.encoders import EncoderConfig
from surefind.errors import InvalidArgument
from surefind.images.preprocess import Preprocessing


@pytest.mark.parametrize("preprocessing", [None, Preprocessing(size=48, resize="pad")])
def test_a_configuration_survives_json(preprocessing):
    config = EncoderConfig(backbone="tiny", dim=7, dropout=0.5, preprocessing=preprocessing)
    assert EncoderConfig.from_dict(json.loads(json.dumps(asdict(config)))) == config


def test_the_first_variance_follows_the_dimension_unless_given():
    assert EncoderConfig(dim=100).starting_var == pytest.approx(1e-3)
    assert EncoderConfig(dim=100, initial_var=0.5).starting_var == 0.5


def test_an_unknown_key_is_refused_with_the_nearest_name():
    with pytest.raises(InvalidArgument, match="did you mean 'backbone'"):
        EncoderConfig.from_dict({"bakbone": "tiny"})
    with pytest.raises(InvalidArgument, match="did you mean 'interpolation'"):
        EncoderConfig.from_dict({"preprocessing": {"interpolate": "bicubic"}})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("backbone", 3),
        ("dim", 1),
        ("dim", 10**12),
        ("dim", True),
        ("family", "gauss"),
        ("dropout", 1.0),
        ("head_dropout", -0.1),
        ("mean_scale", None),
        ("variance_hidden", 0),
        ("variance_floor", 0.0),
        ("initial_var", 1e-9),
        ("initial_var", float("inf")),
        ("preprocessing", "squash"),
        ("preprocessing", {"size": None}),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_name(argument, value):
    with pytest.raises(InvalidArgument, match="expected"):
        EncoderConfig.from_dict({argument: value})
