"""A saved model's card, made ready for the hub: its name there, and what was measured."""

import re

from surefind.encoders.card import SECTIONS, Told, front_matter, with_section
from surefind.encoders.config import EncoderConfig
from surefind.encoders.measured import Measured, limits_text, metrics_text, model_index
from surefind.errors import InvalidFile

_LOADING = re.compile(r'sf\.Encoder\.load\("[^"\n]*"\)')


def shared_card(
    card: str, name: str, *, config: EncoderConfig, told: Told, measured: Measured | None = None
) -> str:
    """The card of a folder with its own words, under the model's name `owner/name`.

    What an author has added stays. Metrics and limits are written anew if there is a report.
    """
    from huggingface_hub import RepoCard

    try:
        repo_card = RepoCard(card)
    except Exception as error:  # of the hub's library, or of the YAML library below it
        raise InvalidFile(
            f"cannot read the front matter of the model card, README.md: {error}",
            fix="correct it: YAML between two lines of ---; or delete README.md for a new card",
        ) from error
    for key, value in front_matter(told).items():
        if repo_card.data.get(key) is None:
            repo_card.data[key] = value
    text = _LOADING.sub(f'sf.Encoder.load("{name}")', repo_card.text, count=1)
    if measured is not None:
        repo_card.data["model-index"] = model_index(name.rpartition("/")[2], measured)
        limits = limits_text(measured, classes=told.classes, has_variance=config.has_variance)
        _, _, metrics_title, limits_title = SECTIONS
        text = with_section(text, metrics_title, metrics_text(measured))
        text = with_section(text, limits_title, limits)
    repo_card.text = text
    return str(repo_card)


def has_license(card: str) -> bool:
    """Whether others are told what they may do with it."""
    from huggingface_hub import RepoCard

    return RepoCard(card).data.get("license") is not None
