"""A connection whose end is heard by the client, and comes."""

import asyncio
import math
from collections.abc import Callable
from typing import Any


class EndingTransport(asyncio.Transport):
    """Closes in two steps while the client is still sending, and in bounded time always.

    Closed at once with bytes unread, a socket resets the connection, and the client may lose the
    answer that says why. So we stop writing, let the rest come and be dropped, and end when the
    client does, or after `last_seconds`. A client that takes nothing of what it is sent for
    `stalled_seconds` is cut off.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        still_sending: Callable[[], bool],
        last_seconds: float,
        stalled_seconds: float,
    ) -> None:
        super().__init__()
        self._transport, self._still_sending = transport, still_sending
        self._last_seconds, self._stalled_seconds = last_seconds, stalled_seconds
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self.is_closing():
            return
        self._closing = True
        self._look_after(self._last_seconds, before=math.inf)
        if self._still_sending() and self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def abort(self) -> None:
        self._transport.abort()

    def expect_progress(self) -> None:
        """From now on, until `expect_nothing` or the end."""
        self._look_after(self._stalled_seconds, before=self.get_write_buffer_size())

    def expect_nothing(self) -> None:
        if not self._closing:
            self._stop_timer()

    def ended(self) -> None:
        """To be told when the connection is lost."""
        self._stop_timer()

    def _look_after(self, seconds: float, *, before: float) -> None:
        self._stop_timer()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._abort_unless_less_than, before)

    def _abort_unless_less_than(self, before: float) -> None:
        if 0 < self.get_write_buffer_size() < before:
            self.expect_progress()
        else:
            self.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def write(self, data: Any) -> None:
        self._transport.write(data)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        if not self.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)
