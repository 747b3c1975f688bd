"""What a collection says about itself: that surefind made it, for which space, with which facts.

It is the collection's description, which Milvus keeps with the schema and never changes.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

from surefind.engines.engine import EngineError
from surefind.engines.milvus.url import Place
from surefind.engines.space import Space
from surefind.errors import InvalidArgument, SurefindError

FORMAT = 1
LONGEST = 200_000  # bytes; the server's own store takes some more


@dataclass(frozen=True)
class Entry:
    space: Space
    facts: Mapping[str, Any]
    kind: str  # as asked for
    number: str  # tells this collection from another that had its name before


def new_entry(space: Space, facts: Mapping[str, Any], kind: str) -> Entry:
    return Entry(space, dict(facts), kind, uuid4().hex)


def written(entry: Entry) -> str:
    said = {"surefind": FORMAT, **asdict(entry)}
    try:
        text = json.dumps(said, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            "facts", expected="what JSON can say", got=str(error), fix="use texts and numbers"
        ) from error
    if len(text) > LONGEST:
        raise InvalidArgument(
            "facts",
            expected=f"at most {LONGEST} bytes of JSON",
            got=str(len(text)),
            fix="keep large facts elsewhere",
        )
    return text


def read(text: str, place: Place) -> Entry:
    try:
        said = json.loads(text)
        made_here = isinstance(said, dict) and isinstance(said.get("surefind"), int)
    except ValueError:
        made_here = False
    if not made_here:
        raise EngineError(
            f"the collection at {place.shown} was not made by surefind",
            fix="name another collection in the URL",
        )
    try:
        if said["surefind"] > FORMAT:
            raise EngineError(
                f"the collection at {place.shown} was made by a newer surefind",
                fix="pip install --upgrade surefind",
            )
        return Entry(Space(**said["space"]), said["facts"], said["kind"], said["number"])
    except (KeyError, TypeError, SurefindError) as error:
        if isinstance(error, EngineError):
            raise
        raise EngineError(
            f"the description of the collection at {place.shown} is damaged",
            fix="create the index again in another collection",
        ) from error
