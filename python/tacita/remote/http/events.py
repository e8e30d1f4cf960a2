"""The end of a request: told by the server's stream of events, or asked for where there is none."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

import httpx2
from pydantic import ValidationError

from tacita.errors import PeerError
from tacita.protocol.http.wire import Status
from tacita.remote.http.channel import Call, Channel

LINE = 1 << 16  # bytes of a line of the stream
STREAM = 1 << 30  # bytes of a whole stream
EVENTS = "text/event-stream"
PAUSE, LONGEST = 0.5, 5.0  # seconds between questions: the first, and the most, each half as long again
Tell = Callable[[Status], None]


async def ended(channel: Channel, request: str, tell: Tell) -> Status:
    """The final status of a request; `tell` hears of all before it.

    A stream that breaks is opened again after one question; a server without streams is asked again and
    again. Raises PeerError as `Channel.ask` does, or where the server tells of another request.
    """
    pause, streams = PAUSE, True
    while True:
        if streams:
            async with aclosing(_stream(channel, request)) as stream:
                streams = False
                async for status in stream:
                    streams = True
                    if _told(status, request, tell).state.final:
                        return status
        reply = await channel.ask("GET", f"/requests/{request}")
        status = _told(reply.read(Status), request, tell)
        if status.state.final:
            return status
        await channel.patience.sleep(pause)
        pause = min(LONGEST, 1.5 * pause)


def _told(status: Status, request: str, tell: Tell) -> Status:
    if status.id != request:
        raise PeerError(f"request {request[:12]}: the server tells of another one", hint="ask again")
    tell(status)
    return status


async def _stream(channel: Channel, request: str) -> AsyncGenerator[Status, None]:
    """Statuses until the stream ends, breaks, or is none."""
    call = Call("GET", f"/requests/{request}/events", headers={"Accept": EVENTS})
    with suppress(httpx2.TransportError):
        async with channel.opened(call) as response:
            if response.status_code == 200 and EVENTS in response.headers.get("Content-Type", ""):
                async with aclosing(_lines(channel, response)) as lines:
                    async for line in lines:
                        if line.startswith(b"data:"):
                            yield _status(channel, call, line.removeprefix(b"data:"))


async def _lines(channel: Channel, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    rest = b""
    async with aclosing(channel.read(response, STREAM, "events")) as pieces:
        async for piece in pieces:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line
            if len(rest) > LINE:
                raise PeerError(
                    f"events: a line of over {LINE} bytes", hint="the server sends what it may not"
                )


def _status(channel: Channel, call: Call, data: bytes) -> Status:
    with suppress(ValidationError):
        return Status.model_validate_json(data)
    raise PeerError(f"{channel.what(call)}: an event that is no Status", hint="is it a tacita service?")
