"""surefind push: upload a model to the Hugging Face hub."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import surefind as sf
from surefind.cli.options import JsonOption, ModelArgument
from surefind.cli.output import is_quiet, note


def push(
    model: ModelArgument,
    name: Annotated[str, Argument(metavar="OWNER/NAME", help="Repository on the hub; OWNER/NAME@BRANCH works.")],
    report: Annotated[Path | None, Option(help="A report of surefind evaluate, for the model card.")] = None,
    private: Annotated[bool, Option("--private", help="Make a new repository private.")] = False,
    onnx: Annotated[bool, Option("--onnx", help="Upload MODEL/onnx as well.")] = False,
    message: Annotated[str, Option("--message", "-m", help="Commit message.")] = "Upload a surefind encoder",
    dry_run: Annotated[bool, Option("--dry-run", help="Print files and card; no upload.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Upload a model and its card in one commit.

    The model card is the README.md of the folder, including your changes. The token is that of
    `hf auth login`, or HF_TOKEN.

    Examples:
        surefind push model owner/name --dry-run
        surefind push model owner/name --report report
    """
    from huggingface_hub.utils.tqdm import disable_progress_bars

    from surefind.encoders.hub import check_hub_id, pack, upload
    from surefind.encoders.serialization import CARD
    from surefind.reports.tables import read_measured
    from surefind.text import printable, printable_lines

    hub_id = check_hub_id(name)
    fingerprint = sf.Encoder.load(model).fingerprint  # raises if the model is damaged
    measured = None if report is None else read_measured(report, fingerprint=fingerprint)
    files, licensed = pack(model, hub_id, measured=measured, onnx=onnx)
    card = bytes(files[CARD]).decode()
    sizes = {
        file: len(content) if isinstance(content, bytes) else content.stat().st_size for file, content in files.items()
    }
    facts = {"repo": hub_id.repo, "revision": hub_id.revision, "fingerprint": fingerprint}
    if not licensed:
        note(f"the card has no license: add a line such as `license: mit` to {model / CARD}")
    url: str | None = None
    if not dry_run:
        if is_quiet():
            disable_progress_bars()
        url = upload(hub_id, files, private=private, message=message)
    if as_json:
        shown = {"card": card} if dry_run else {}
        print(json.dumps(facts | {"url": url, "files": sizes} | shown))
        return
    for file, count in sizes.items():
        print(f"{count:>14,} bytes  {printable(file)}")
    if dry_run:
        print(f"\n{printable_lines(card)}")
        note(f"dry run: nothing was uploaded to {hub_id.repo}")
    else:
        print(f"uploaded: {url}")
