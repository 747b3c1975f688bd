"""Model card (README.md) of a model folder, with the front matter of the hub."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import surefind
from surefind.encoders.config import EncoderConfig
from surefind.errors import InvalidFile
from surefind.text import printable

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

TASK = "image-feature-extraction"  # on the hub
NOT_MEASURED = (
    "Not measured yet: `surefind evaluate MODEL DATA -o REPORT` does it, and "
    "`surefind push MODEL owner/name --report REPORT` writes it here."
)
FOLDER = 'sf.Encoder.load("FOLDER")'  # as long as the model has no name
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
- Do not calibrate with classes that it was trained on: confidence would be too high. \
classes.json has their hashes, so that surefind can warn.
- On images that differ from those it was trained and measured on, expect less, and \
measure: `surefind evaluate`.
"""


class Measured(NamedTuple):
    """Metrics of an evaluation: for the hub, and as Markdown."""

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
    """Write the model card in Markdown.

    `base_model` is the hub id of the backbone's weights; `classes` the number of training classes,
    0 if not known. The license is left to the author.
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
        "dimension of a mean": config.dim,
        "fingerprint": fingerprint,
        **{f"preprocessing: {name}": value for name, value in preprocessing.items()},
    }
    if isinstance(training, Mapping):
        lines = (f"- {markdown(name)}: {markdown(value)}" for name, value in training.items())
        training = "\n".join(lines)
    return f"---\n{data.to_yaml()}\n---\n" + _TEXT.format(
        backbone=markdown(config.backbone),
        family=config.family,
        numbers=f"a mean of {config.dim} numbers"
        + (" and one variance" if config.has_variance else ""),
        version=surefind.__version__,
        load=FOLDER,
        facts="\n".join(f"| {name} | {markdown(value)} |" for name, value in facts.items()),
        training=training or "Not documented.",
        metrics=NOT_MEASURED,
        classes=f"It was trained on {classes:,} classes; measure whether it serves for others."
        if classes
        else "The classes it was trained on are not known.",
        variance="How well its variance detects wrong hits depends on the data: see the metrics."
        if config.has_variance
        else "It has no variance of its own: uncertainty comes from distances alone.",
    )


def card_for_hub(card: str, name: str, measured: Measured | None = None) -> tuple[str, bool]:
    """Return the card with name and metrics, and whether it names a license; edits are kept."""
    from huggingface_hub import ModelCard

    try:
        shared = ModelCard(card)
        data: Any = shared.data  # front matter, perhaps edited
    except Exception as error:  # of the hub's or the YAML library
        raise InvalidFile(
            f"cannot read the front matter of the model card, README.md: {error}",
            fix="correct the YAML between the lines of ---, or delete README.md",
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


def markdown(text: object) -> str:
    r"""Escape text for Markdown, in one line.

    >>> print(markdown("a|b <img src=x> *c*"))
    a\|b &lt;img src=x&gt; \*c\*
    """
    marked = re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", printable(str(text)).replace("&", "&amp;"))
    return marked.replace("<", "&lt;").replace(">", "&gt;")
