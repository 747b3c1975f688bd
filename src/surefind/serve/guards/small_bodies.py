"""Bodies that the framework reads by itself, and would read without end."""

from collections.abc import Sequence

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surefind.serve.guards.bodies import UploadRoom, read_body
from surefind.serve.guards.refused import Refused, announces_a_body, send_refusal


class SmallBodies:
    """Reads them before the app does, within limits; `others` are paths that have their own."""

    def __init__(
        self, app: ASGIApp, *, most: int, seconds: float, room: UploadRoom, others: Sequence[str]
    ) -> None:
        self.app, self._others = app, frozenset(others)
        self._most, self._seconds, self._room = most, seconds, room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = scope["type"] != "http" or scope["path"] in self._others
        if own or not announces_a_body(Request(scope)):
            await self.app(scope, receive, send)
            return
        try:
            body = await self._read(Request(scope, receive))
        except Refused as refused:
            await send_refusal(refused, scope, receive, send)
        except ClientDisconnect:
            pass  # nobody waits for an answer
        else:
            await self.app(scope, _again(body, receive), send)

    async def _read(self, request: Request) -> bytes:
        return await read_body(request, most=self._most, seconds=self._seconds, room=self._room)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, then whatever comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
