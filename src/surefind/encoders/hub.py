"""Models on the Hugging Face hub: download, upload, and the model card."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import surefind
from surefind.encoders.config import EncoderConfig
from surefind.encoders.serialization import (
    CARD,
    CLASSES,
    CONFIG,
    EXPORT,
    ONNX,
    WEIGHTS,
    model_files,
    read_classes,
    read_config,
    read_content,
    read_export,
)
from surefind.errors import InvalidArgument, InvalidFile
from surefind.text import printable

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"
PREFIX = "hf://"  # the hub, even if there is a folder of that name
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"({_NAME}/{_NAME})(?:@([^@\s]+))?")

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


class HubId(NamedTuple):
    """Name and revision of a model on the hub."""

    repo: str  # owner/name
    revision: str | None = None  # a branch, tag or commit; None: the newest


def read_hub_id(text: str) -> HubId | None:
    """Parse `owner/name[@revision]`; None if it cannot be a name on the hub.

    >>> read_hub_id("birds/encoder@v2")
    HubId(repo='birds/encoder', revision='v2')
    >>> read_hub_id("../encoder") is None
    True
    """
    found = _HUB_ID.fullmatch(text.removeprefix(PREFIX))
    if found is None or "--" in found[1] or ".." in found[1]:
        return None
    return HubId(found[1], found[2])


def check_hub_id(text: str) -> HubId:
    """Parse a name on the hub, or raise InvalidArgument."""
    hub_id = read_hub_id(text)
    if hub_id is None:
        raise InvalidArgument("name on the hub", expected="owner/name, or owner/name@branch", got=repr(text))
    return hub_id


def model_folder(model: str | Path, *, onnx: bool = False) -> Path:
    """Return the local folder of a model; download it from the hub if there is no such folder.

    A `Path` always means a folder, and `hf://owner/name` the hub. `models/birds` is not looked up
    on the hub if there is a folder `models`. `onnx` also downloads exported models.
    """
    explicit = isinstance(model, str) and model.startswith(PREFIX)
    hub_id = None if isinstance(model, Path) else read_hub_id(model)
    if hub_id is None or (Path(model).exists() and not explicit):
        return Path(model)
    if not explicit and Path(hub_id.repo).parent.is_dir():
        raise InvalidFile(
            f"{model} holds no model: there is no such folder",
            fix=f"check the path; a model of that name on the hub is {PREFIX}{model}",
        )

    from huggingface_hub import snapshot_download

    wanted = [CONFIG, WEIGHTS, CLASSES, CARD, *([f"{ONNX}/*"] if onnx else [])]
    try:
        folder = Path(snapshot_download(hub_id.repo, revision=hub_id.revision, allow_patterns=wanted))
    except Exception as error:  # of several libraries
        raise InvalidFile(
            f"{hub_id.repo} holds no model: there is no such folder, and it could not be "
            f"downloaded from the hub: {_first_cause(error)}",
            fix=f"check the spelling; if the model is private or gated, {LOG_IN}",
        ) from error
    if not (folder / CONFIG).is_file():
        raise InvalidFile(f"{hub_id.repo} holds no model of surefind: {CONFIG} is missing")
    return folder


def upload(hub_id: HubId, files: Mapping[str, Path | bytes], *, private: bool = False, message: str) -> str:
    """Upload files in one commit and return the URL of the model.

    Files of an older model that the new one does not have are deleted; other files stay.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token

    if get_token() is None:
        raise InvalidFile(
            f"cannot upload to {hub_id.repo}: not logged in to the hub", fix=f"{LOG_IN}, with write permission"
        )
    api, repo, branch = HfApi(), hub_id.repo, hub_id.revision
    try:
        api.create_repo(repo, private=private, exist_ok=True)
        if branch is not None:
            api.create_branch(repo, branch=branch, exist_ok=True)
        ours = (CONFIG, WEIGHTS, CLASSES, CARD)
        old = [
            name
            for name in api.list_repo_files(repo, revision=branch)
            if (name in ours or name.startswith(f"{ONNX}/")) and name not in files
        ]
        api.create_commit(
            repo,
            [
                *(CommitOperationAdd(name, content) for name, content in files.items()),
                *(CommitOperationDelete(name) for name in old),
            ],
            commit_message=message,
            revision=branch,
        )
    except Exception as error:  # as above
        raise InvalidFile(f"cannot upload to {repo}: {_first_cause(error)}") from error
    return f"{api.endpoint}/{repo}" + ("" if branch is None else f"/tree/{branch}")


def _first_cause(error: Exception) -> str:
    """Message in one line; of a LocalEntryNotFoundError, that of its cause."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    cause = error.__cause__ if isinstance(error, LocalEntryNotFoundError) else None
    return " ".join(str(cause or error).split())[:400] or type(error).__name__


def pack(
    folder: Path, hub_id: HubId, *, measured: Measured | None = None, onnx: bool = False
) -> tuple[dict[str, Path | bytes], bool]:
    """Return the files to upload by name, and whether the card names a license."""
    saved, path = read_config(folder), folder / CARD
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = model_card(saved.config, saved.fingerprint, classes=len(read_classes(folder)))
    except (OSError, ValueError) as error:
        raise InvalidFile(f"cannot read the model card {path}: {error}") from error
    card, licensed = card_for_hub(text, hub_id.repo, measured)
    files: dict[str, Path | bytes] = {CARD: card.encode(), **model_files(folder, saved)}
    if onnx:
        exported = read_export(folder, "fp32")
        for precision in exported.digests:
            files[f"{ONNX}/{exported.name(precision)}"] = read_content(folder, precision, exported)
        files[f"{ONNX}/{EXPORT}"] = folder / ONNX / EXPORT
    return files, licensed


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
    preprocessing = asdict(config.preprocessing) if config.preprocessing else {}
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
        numbers=f"a mean of {config.dim} numbers" + (" and one variance" if config.has_variance else ""),
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
