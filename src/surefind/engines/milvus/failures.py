"""What Milvus's errors mean to the one who called, and what to do about them."""

from collections.abc import Iterator

from surefind.engines.engine import EngineError
from surefind.engines.milvus.url import Place

AGAIN = (
    "call again: it connects anew; all that was acknowledged is kept, and to add the same rows "
    "twice is harmless"
)
GONE, NOT_LOADED = (100,), (101, 103)  # Milvus's codes for a collection
LONGEST = 300  # letters of what the server said
# By the name of gRPC's status, the cause of most errors.
MEANINGS = {
    "UNAUTHENTICATED": (
        "the Milvus server at {place} refused the user or the password",
        "correct them in the URL, special characters percent-encoded: @ is %40, / is %2F",
    ),
    "PERMISSION_DENIED": (
        "the user may not {doing} at {place}: {said}",
        "ask the owner of the server for the right, or use another user",
    ),
    "UNAVAILABLE": (
        "the Milvus server at {place} cannot be reached",
        "start it, or correct host, port and secure= in the URL; then " + AGAIN,
    ),
    "DEADLINE_EXCEEDED": (
        "the Milvus server at {place} took too long to {doing}",
        "raise the limit with timeout=seconds in the URL, or " + AGAIN,
    ),
    "RESOURCE_EXHAUSTED": (
        "the Milvus server at {place} had no room to {doing}: {said}",
        "raise its limits (proxy.grpc in milvus.yaml), its memory or its disk",
    ),
}
# By what is said where the status says little.
PHRASES = {
    "permission deny": "PERMISSION_DENIED",
    "fail connecting": "UNAVAILABLE",
    "timeout": "DEADLINE_EXCEEDED",
    "deadline": "DEADLINE_EXCEEDED",
    "exhausted": "RESOURCE_EXHAUSTED",
    "quota": "RESOURCE_EXHAUSTED",
}


class NotLoaded(EngineError):
    """The server has the collection but cannot read it yet, as after a restart."""


def explained(error: Exception, place: Place, doing: str) -> EngineError:
    """One sentence and a remedy for whatever pymilvus or gRPC raised."""
    said = _said(error, place)
    if getattr(error, "code", None) in GONE:
        return missing(place)
    if getattr(error, "code", None) in NOT_LOADED:
        return NotLoaded(
            f"the collection at {place.shown} is not loaded, or its index is being built",
            fix="wait a moment and call again",
        )
    if "database" in said.lower() and "not found" in said.lower():
        return EngineError(
            f"there is no database {place.database!r} at {place.shown}",
            fix="create it, or name another in the URL",
        )
    status = _status(error, said)
    if status in MEANINGS:
        problem, fix = MEANINGS[status]
        return EngineError(problem.format(place=place.shown, doing=doing, said=said), fix=fix)
    return EngineError(
        f"the Milvus server at {place.shown} refused to {doing}: {said}",
        fix="see the server's log",
    )


def missing(place: Place) -> EngineError:
    return EngineError(
        f"there is no collection {place.collection!r} in the database {place.database!r} "
        f"at {place.shown}",
        fix="check the names in the URL, or create the index",
    )


def _status(error: Exception, said: str) -> str:
    for one in _causes(error):
        code = getattr(one, "code", None)
        name = getattr(code() if callable(code) else code, "name", None)
        if name in MEANINGS:
            return str(name)
    return next((status for phrase, status in PHRASES.items() if phrase in said.lower()), "")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Each once: pymilvus raises errors from themselves."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = error.__cause__ if error.__cause__ not in (None, error) else error.__context__


def _said(error: Exception, place: Place) -> str:
    """The first line of the message, without secrets."""
    details = getattr(error, "details", None)
    message = getattr(error, "message", None) or (details() if callable(details) else str(error))
    first = next(iter(str(message).strip().splitlines()), "") or type(error).__name__
    if place.password:
        first = first.replace(place.password, "***")
    return first[:LONGEST]
