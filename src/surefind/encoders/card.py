"""The model card that is saved beside an encoder."""

from collections.abc import Mapping

import surefind
from surefind.encoders.config import EncoderConfig

_CARD = """# {backbone} encoder, {family}

An image becomes {numbers}. Saved by surefind {version}.

```python
import surefind as sf
encoder = sf.Encoder.load("FOLDER")  # the folder of this file
embeddings = encoder.encode(["image.jpg"])
```

| | |
|---|---|
{facts}

## Training

{training}
"""


def model_card(
    config: EncoderConfig, fingerprint: str, training: Mapping[str, object] | str | None
) -> str:
    """What the encoder is and how it was trained, in Markdown."""
    preprocessing = config.preprocessing.as_dict() if config.preprocessing else {}
    facts = {
        "backbone": config.backbone,
        "family": config.family,
        "numbers per image": config.dim,
        "fingerprint": fingerprint,
        **{f"preprocessing: {name}": value for name, value in preprocessing.items()},
    }
    if isinstance(training, Mapping):
        training = "\n".join(f"- {name}: {value}" for name, value in training.items())
    return _CARD.format(
        backbone=config.backbone,
        family=config.family,
        numbers=f"a mean of {config.mean_dim} numbers"
        + (" and one variance" if config.has_variance else ""),
        version=surefind.__version__,
        facts="\n".join(f"| {name} | {value} |" for name, value in facts.items()),
        training=training or "Nothing was told about it.",
    )
