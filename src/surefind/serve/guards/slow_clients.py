"""Connections that take their time, and more of them than can be served."""

import asyncio
import json

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from surefind.serve.guards.closing import EndingTransport
from surefind.serve.guards.refused import error_body

PAUSE = 2  # seconds that a client is asked to stay away
LAST_SECONDS = 3.0  # for a client to hear that the connection ends


def limited_protocol(
    *, header_seconds: float, most_connections: int, stalled_seconds: float = 30.0
) -> type[H11Protocol]:
    """How uvicorn is to speak to its clients (`http=`).

    The head of a request has `header_seconds` from the opening of the connection, or from its
    first byte on one that was kept open. Who takes nothing of an answer for `stalled_seconds` is
    cut off. Connections beyond `most_connections` are told to come back.
    """
    turned_away = set[H11Protocol]()

    class LimitedProtocol(_PatientProtocol):
        header_patience, answer_patience = header_seconds, stalled_seconds

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(self.connections) < most_connections:
                super().connection_made(transport)
                return
            turned_away.add(self)
            self.turn_away(transport)
            if len(turned_away) > most_connections:
                transport.abort()  # a flood: nobody waits for it to hear the answer

        def connection_lost(self, exc: Exception | None) -> None:
            turned_away.discard(self)
            super().connection_lost(exc)

    return LimitedProtocol


class _PatientProtocol(H11Protocol):
    """Whenever no request is being answered, one of two clocks runs: uvicorn's for connections
    that are kept open, or ours.
    """

    header_patience: float
    answer_patience: float
    _head: asyncio.TimerHandle | None = None
    _ending: EndingTransport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._ending = self._make_ending(transport)
        super().connection_made(self._ending)
        self._watch()

    def turn_away(self, transport: asyncio.Transport) -> None:
        """Before anything is read, and without a place among the connections."""
        self._ending = self._make_ending(transport)
        self._ending.write(_TURNED_AWAY)
        self._ending.close()

    def data_received(self, data: bytes) -> None:
        if self._ending.is_closing():
            return  # the rest of what nobody waits for
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # another answer was on its way already
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._ending.expect_progress()

    def resume_writing(self) -> None:
        self._ending.expect_nothing()
        super().resume_writing()

    def eof_received(self) -> None:
        self._ending.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        self._ending.ended()
        if self in self.connections:
            super().connection_lost(exc)

    def _make_ending(self, transport: asyncio.Transport) -> EndingTransport:
        return EndingTransport(
            transport,
            still_sending=self._may_be_sending,
            last_seconds=LAST_SECONDS,
            stalled_seconds=self.answer_patience,
        )

    def _may_be_sending(self) -> bool:
        unread = self not in self.connections  # it was turned away
        return unread or self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def _watch(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle and not cycle.response_complete  # there is none before the first
        if answering or self.timeout_keep_alive_task is not None:
            self._stop_watching()
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self.header_patience, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._head is not None:
            self._head.cancel()
        self._head = None


def _turned_away() -> bytes:
    body = json.dumps(
        error_body(
            "too many connections at a time",
            "ask again after the seconds that Retry-After names",
        )
    )
    head = [
        "HTTP/1.1 503 Service Unavailable",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Retry-After: {PAUSE}",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    return "\r\n".join([*head, "", body]).encode()


_TURNED_AWAY = _turned_away()
