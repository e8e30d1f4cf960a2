"""The least rate at which answers must be read, and the end of a connection whose peer still sends."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from typing import Any

from tacita.server.store.bodies import MinRate

LOOKS = 4  # in the seconds of silence that a reader may take
LINGER = 1.0  # seconds in which what still comes is thrown away, so that the answer before it arrives


class MinRateTransport:
    """A transport as uvicorn uses it, which is aborted when what was written is read too slowly: nothing for
    `min_rate.patience` seconds, or less than `min_rate.least_rate` on the whole while something waits.

    sending: whether the peer is in the middle of a body. Closing then waits for LINGER: a system that closes
    a connection with unread bytes resets it, and the peer loses the answer.
    """

    def __init__(
        self, transport: Any, loop: AbstractEventLoop, min_rate: MinRate, sending: Callable[[], bool]
    ) -> None:
        self._transport, self._loop, self._min_rate, self._sending = transport, loop, min_rate, sending
        self._timer: TimerHandle | None = None
        self._closing = False
        self._written = 0
        self._since = self._moved = 0.0  # seconds: when bytes began to wait, and when some last went
        self._first = self._last = 0  # bytes that had gone then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Writes as asyncio's transports do, and begins to watch how fast the peer reads."""
        self._written += len(data)
        self._transport.write(data)
        if self._timer is None and self._transport.get_write_buffer_size():
            self._since = self._moved = self._loop.time()
            self._first = self._last = self._gone()
            self._look_later()

    def is_closing(self) -> bool:
        """Returns whether the transport closes, as asyncio's transports do."""
        return self._closing or bool(self._transport.is_closing())

    def close(self) -> None:
        """Closes the transport as asyncio's transports do; what waits must be read as fast as before."""
        if not self._closing and self._sending():
            self._transport.resume_reading()
            self._loop.call_later(LINGER, self._transport.close)
        elif not self._closing:
            self._transport.close()
        self._closing = True

    def release(self) -> Any:
        """Returns the transport, for a protocol with limits of its own."""
        self.stop()
        return self._transport

    def stop(self) -> None:
        """Stops watching: the connection is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _gone(self) -> int:
        return self._written - int(self._transport.get_write_buffer_size())

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._min_rate.patience / LOOKS, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._transport.get_write_buffer_size():
            return
        now, gone = self._loop.time(), self._gone()
        if gone > self._last:
            self._last, self._moved = gone, now
        silent = now - self._moved >= self._min_rate.patience
        if silent or now - self._since > self._min_rate.whole(gone - self._first):
            self._transport.abort()
        else:
            self._look_later()
