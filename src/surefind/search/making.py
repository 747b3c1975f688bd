"""A new index: its rows in an engine, its model and its description in a folder."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import surefind
from surefind.encoders.encoder import Encoder
from surefind.encoders.encoding import ImageEncoder
from surefind.encoders.onnx.runtime import OnnxEncoder
from surefind.engines.engine import Engine
from surefind.engines.opening import create_engine, open_engine, without_password
from surefind.engines.space import Space
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.search.folder import IndexFolder


def make_index(
    folder: IndexFolder,
    space: Space,
    *,
    fingerprint: str,
    engine: str,
    kind: str,
    encoder: ImageEncoder | None,
) -> tuple[IndexFolder, Engine]:
    """The description comes last: without it the folder is unfinished, and can be made again."""
    if folder.exists():
        raise InvalidFile(
            f"{folder.path} holds an index already",
            fix="open it to add to it, or choose another folder",
        )
    folder.make()
    facts = {
        "fingerprint": fingerprint,
        "gallery": uuid4().hex,  # its keys mean nothing in another
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "surefind": surefind.__version__,
    }
    opened = _join_or_create(folder.place(engine), space, facts, kind)
    if isinstance(encoder, Encoder | OnnxEncoder):
        encoder.save(folder.model)
    folder.write(engine)
    return folder, opened


def space_of(encoder: ImageEncoder, ranking: str) -> Space:
    empty = encoder.empty()
    return Space(empty.family, empty.dim, ranking)


def _join_or_create(place: str, space: Space, facts: Mapping[str, Any], kind: str) -> Engine:
    try:
        engine = open_engine(place)
    except SurefindError as missing:
        try:
            return create_engine(place, space, facts, kind=kind)
        except SurefindError as error:
            raise error from missing
    if engine.facts.get("fingerprint") != facts["fingerprint"] or engine.space != space:
        engine.close()
        raise InvalidArgument(
            "engine",
            expected="a place that is new, or holds rows of the same model and ranking",
            got=f"{without_password(place)}, made with another",
            fix="choose another folder, table or collection",
        )
    return engine
