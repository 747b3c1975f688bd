"""The model card, README.md: for people, and with the front matter that the hub reads."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import category

import surefind
from surefind.encoders.config import EncoderConfig
from surefind.errors import InvalidFile

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

TASK = "image-feature-extraction"  # what the hub calls it
NOT_MEASURED = (
    "Not measured yet: `surefind evaluate MODEL DATA -o REPORT` does it, and "
    "`surefind push MODEL owner/name --report REPORT` writes it here."
)
FOLDER = 'sf.Encoder.load("FOLDER")'  # as long as the model has no name
# Controls, formats that turn the order of what is read, half and unassigned characters, and
# separators that begin a line: YAML refuses some of them, readers are misled by others.
_HIDDEN = ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # parts of words and of emoji
_TEXT = """
# {backbone} encoder, {family}

An image becomes {numbers}. Saved by surefind {version}.

## Use

```python
import surefind as sf
encoder = {load}  # the folder of this file, or owner/name on the hub
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

- {classes}
- {variance}
- A distance or a variance is not a probability. Confidence comes from `surefind calibrate` \
on labelled images of your own, for your own gallery.
- Do not calibrate with classes that it was trained with: it knows them too well, and \
would guarantee too much. classes.json has their hashes, by which surefind warns.
- On images that differ from those it was trained and measured on, expect less, and \
measure: `surefind evaluate`.
"""


class Measured(NamedTuple):
    """What an evaluation measured: for the hub, and in words and a table."""

    results: "list[EvalResult]"
    text: str


def model_card(
    config: EncoderConfig,
    fingerprint: str,
    *,
    training: Mapping[str, object] | str | None = None,
    base_model: str = "",
    classes: int = 0,
) -> str:
    """Return what the encoder is, how it was trained and what it cannot do, in Markdown.

    `base_model` is where the backbone's weights came from, if the hub has them; `classes` are
    those it was trained with, 0 if not known. A license is for the author to name.
    """
    from huggingface_hub import ModelCardData

    data = ModelCardData(
        library_name="surefind",
        pipeline_tag=TASK,
        base_model=base_model or None,
        tags=["surefind", "image-retrieval", "metric-learning", "uncertainty"],
    )
    preprocessing = config.preprocessing.as_dict() if config.preprocessing else {}
    facts = {
        "backbone": config.backbone,
        "family": config.family,
        "numbers per image": config.dim,
        "fingerprint": fingerprint,
        **{f"preprocessing: {name}": value for name, value in preprocessing.items()},
    }
    if isinstance(training, Mapping):
        told = (f"- {markdown(name)}: {markdown(value)}" for name, value in training.items())
        training = "\n".join(told)
    return f"---\n{data.to_yaml()}\n---\n" + _TEXT.format(
        backbone=markdown(config.backbone),
        family=config.family,
        numbers=f"a mean of {config.mean_dim} numbers"
        + (" and one variance" if config.has_variance else ""),
        version=surefind.__version__,
        load=FOLDER,
        facts="\n".join(f"| {name} | {markdown(value)} |" for name, value in facts.items()),
        training=training or "Nothing was told about it.",
        metrics=NOT_MEASURED,
        classes=f"It was trained on {classes:,} classes; measure whether it serves for others."
        if classes
        else "Which classes it was trained with was not written down.",
        variance="How well its variance tells wrong top hits from right ones depends on the data: "
        "see the metrics."
        if config.has_variance
        else "It has no variance of its own: doubt comes from distances alone.",
    )


def card_for_hub(card: str, name: str, measured: Measured | None = None) -> tuple[str, bool]:
    """Return the card under the model's name `owner/name`, and whether it names a license.

    What an author has added stays.
    """
    from huggingface_hub import ModelCard

    try:
        shared = ModelCard(card)
        data: Any = shared.data  # of an author, with whatever is in it
    except Exception as error:  # of the hub's library, or of the YAML library below it
        raise InvalidFile(
            f"cannot read the front matter of the model card, README.md: {error}",
            fix="correct it: YAML between two lines of ---; or delete README.md for a new card",
        ) from error
    data.library_name = data.library_name or "surefind"
    shared.text = shared.text.replace(FOLDER, f'sf.Encoder.load("{name}")', 1)
    if measured is not None:
        data.model_name = name.rpartition("/")[2]
        data.eval_results = measured.results
        if NOT_MEASURED in shared.text:
            shared.text = shared.text.replace(NOT_MEASURED, measured.text, 1)
        else:
            shared.text = f"{shared.text.rstrip()}\n\n## Metrics\n\n{measured.text}\n"
    return str(shared), data.license is not None


def plain(text: object) -> str:
    """Return one line in which every character is seen."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if category(char) in _HIDDEN and char not in _JOINERS else char
        for char in str(text)
    )


def markdown(text: object) -> str:
    r"""Return words that stay words, whatever marks are in them.

    >>> print(markdown("a|b <img src=x> *c*"))
    a\|b &lt;img src=x&gt; \*c\*
    """
    marked = re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", plain(text).replace("&", "&amp;"))
    return marked.replace("<", "&lt;").replace(">", "&gt;")
