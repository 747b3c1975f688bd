"""The model card that is saved beside an encoder, with the front matter that the hub reads."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import surefind
from surefind.encoders.config import EncoderConfig
from surefind.encoders.markup import markdown, yaml
from surefind.encoders.measured import TASK, limits_text, metrics_text

SECTIONS = ("## Use", "## Training", "## Metrics", "## Limits")
FOLDER = "FOLDER"  # in the place of the model's name, as long as it has none
TAGS = ("image-retrieval", "metric-learning", "uncertainty")
_NOTHING_TOLD = "Nothing was told about it."
_LONGEST = 1_000_000  # bytes of a card that is read
_CARD = """---
{front}
---

# {backbone} encoder, {family}

An image becomes {numbers}. Saved by surefind {version}.

## Use

```python
import surefind as sf
encoder = sf.Encoder.load("{name}")  # the folder of this file, or owner/name on the hub
embeddings = encoder.encode(["image.jpg"])
```

| | |
|---|---|
{facts}

## Training

{training}

## Metrics

{metrics}

## Limits

{limits}
"""


class Told(NamedTuple):
    """What an encoder's numbers do not say of themselves."""

    training: Mapping[str, object] | str | None = None
    base_model: str = ""  # where the backbone's weights came from, if the hub has them
    classes: int = 0  # that it was trained with; 0: not known


def model_card(config: EncoderConfig, fingerprint: str, told: Told) -> str:
    """What the encoder is, how it was trained and what it cannot do, in Markdown.

    A license and data sets of the hub are for the author to name, in the front matter.
    """
    preprocessing = config.preprocessing.as_dict() if config.preprocessing else {}
    facts = {
        "backbone": config.backbone,
        "family": config.family,
        "numbers per image": config.dim,
        "fingerprint": fingerprint,
        **{f"preprocessing: {name}": value for name, value in preprocessing.items()},
    }
    return _CARD.format(
        front=yaml(front_matter(told)),
        backbone=markdown(config.backbone),
        family=config.family,
        numbers=f"a mean of {config.mean_dim} numbers"
        + (" and one variance" if config.has_variance else ""),
        version=surefind.__version__,
        name=FOLDER,
        facts="\n".join(f"| {name} | {markdown(value)} |" for name, value in facts.items()),
        training=_training(told.training),
        metrics=metrics_text(None),
        limits=limits_text(None, classes=told.classes, has_variance=config.has_variance),
    )


def front_matter(told: Told) -> dict[str, object]:
    """What the hub must know of every model."""
    front: dict[str, object] = {"library_name": "surefind", "pipeline_tag": TASK}
    if told.base_model:
        front["base_model"] = told.base_model
    return front | {"tags": ["surefind", *TAGS]}


def published_as(model: object) -> str:
    """The name on the hub of the weights that timm downloads for a model, if they are there."""
    found = dict(getattr(model, "pretrained_cfg", None) or {}).get("hf_hub_id")
    return found if isinstance(found, str) and re.fullmatch(r"[\w.-]+/[\w.-]+", found) else ""


def read_told(card: Path) -> Told:
    """What a card says of the training; nothing where there is no card, or another."""
    try:
        text = card.read_bytes()[:_LONGEST].decode(errors="replace")
    except OSError:
        return Told()
    training = section(text, "## Training")
    base = re.search(r'^base_model: ("[^"\n]*")$', text.partition("\n---\n")[0], re.MULTILINE)
    return Told(
        None if training in ("", _NOTHING_TOLD) else training,
        json.loads(base[1]) if base else "",
    )


def section(text: str, title: str) -> str:
    """What stands under one of our titles."""
    start, end = _find(text, title)
    return text[start:end].strip()


def with_section(text: str, title: str, body: str) -> str:
    """The card with other words under one of our titles, which is added if it is missing."""
    start, end = _find(text, title)
    if start == end == len(text):
        return f"{text.rstrip()}\n\n{title}\n\n{body}\n"
    rest = text[end:]
    return f"{text[:start]}\n\n{body}\n" + (f"\n{rest}" if rest else "")


def _find(text: str, title: str) -> tuple[int, int]:
    """Where a title ends and the next of ours begins; twice the end, if it is not there."""
    found = re.search(rf"^{re.escape(title)}$", text, re.MULTILINE)
    if found is None:
        return len(text), len(text)
    others = "|".join(re.escape(other) for other in SECTIONS if other != title)
    next_one = re.compile(rf"^({others})$", re.MULTILINE).search(text, found.end())
    return found.end(), next_one.start() if next_one else len(text)


def _training(told: Mapping[str, object] | str | None) -> str:
    if isinstance(told, Mapping):
        return "\n".join(f"- {markdown(name)}: {markdown(value)}" for name, value in told.items())
    return told or _NOTHING_TOLD
