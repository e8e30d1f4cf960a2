"""Carries a session's bytes between its local socket and a connection: as they are, or in the binary messages
of a WebSocket (RFC 6455) whose handshake a library has made. Client and server carry alike.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from tacita.plans.wire import FRAME_BYTES

# Bytes that are taken from a socket at once, and wait here at most; the socket holds as many.
CHUNK = 256 << 10
OVER, VIOLATION, NOT_BINARY, TOO_LARGE = 1000, 1002, 1003, 1009  # RFC 6455, section 7.4.1
CONTINUATION, TEXT, BINARY, CONTROL = 0, 1, 2, (8, 9, 10)  # kinds of frames
FIN, RESERVED, MASKED, MOST_CONTROL = 0x80, 0x70, 0x80, 125
Mask = Callable[[bytes | memoryview, bytes], bytes]


class Carrier(asyncio.BufferedProtocol):
    """Bytes go over as they come, in both directions at the same time: what waits here is a chunk each way,
    and whoever is slower holds the other back, as TCP would. The channel's frames, limits and errors are the
    session's own; nothing is looked into.

    All is done in the loop's callbacks: tasks and streams would cost a round trip several wake-ups and every
    byte two copies more. patience: seconds that the peer may take to read what is sent at once.
    """

    _transport: asyncio.Transport
    _session: socket.socket | None = None

    def __init__(self, patience: float) -> None:
        self._loop, self._patience = asyncio.get_running_loop(), patience
        self._late: asyncio.TimerHandle | None = None  # hangs up on a peer that does not read
        self._buffer = memoryview(bytearray(CHUNK))
        self._unsent = self._buffer[:0]  # what the session's socket has not taken

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns where the peer's next bytes go: none come before all of the last have been sent."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Sends the session what came."""
        self._forward(self._buffer[:nbytes])

    def pause_writing(self) -> None:
        """Takes no more from the session; the peer has to read what is there in time."""
        if self._session is not None:
            self._loop.remove_reader(self._session)
            self._must_read()

    def resume_writing(self) -> None:
        """Takes more from the session."""
        if self._session is not None and not self._transport.is_closing():
            self._may_read()
            self._loop.add_reader(self._session, self._receive)

    def stop(self) -> None:
        """Carries nothing from now on, and closes the session's socket."""
        self._may_read()
        if self._session is not None:
            self._loop.remove_reader(self._session)
            self._loop.remove_writer(self._session)
            self._session.close()
            self._session = None

    def _begin(self, session: socket.socket) -> None:
        self._session = session
        self._loop.add_reader(session, self._receive)

    def _forward(self, data: memoryview) -> None:
        """Sends the session this, and the rest once it reads on."""
        self._unsent = data
        self._send()
        if self._unsent and self._session is not None:
            self._transport.pause_reading()
            self._loop.add_writer(self._session, self._send_rest)

    def _send(self) -> None:
        if self._session is None:  # its end and these bytes came at once
            return
        try:
            self._unsent = self._unsent[self._session.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError:  # the session is over; what it said last is on its way, and ends this
            self._unsent = self._buffer[:0]

    def _send_rest(self) -> None:
        self._send()
        if not self._unsent and self._session is not None:
            self._loop.remove_writer(self._session)
            self._transport.resume_reading()

    def _receive(self) -> None:
        """Takes what the session said over to the peer."""
        assert self._session is not None
        try:
            data = self._session.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._write(data)
            return
        self._loop.remove_reader(self._session)
        self._end()

    def _write(self, data: bytes) -> None:
        self._transport.write(data)

    def _end(self) -> None:
        """Hangs up once the peer has all that the session said, which is over."""
        self._transport.close()
        self._must_read()

    def _must_read(self) -> None:
        self._may_read()
        self._late = self._loop.call_later(self._patience, self._transport.abort)

    def _may_read(self) -> None:
        if self._late is not None:
            self._late.cancel()


class FrameCarrier(Carrier):
    """The same over a WebSocket. What the session said at once is one frame; of a frame that comes, each part
    goes on as it is there, so that no message is ever held whole. Control frames are the library's, which
    answers them and closes.

    library: whose connection this was, and which is told of its end. session: does not block. client: whether
    this end dialled, and masks what it sends. over: the code with which to close, once the session or the
    peer gave cause to; what comes afterwards is dropped.
    """

    def __init__(
        self,
        library: asyncio.Protocol,
        transport: asyncio.Transport,
        session: socket.socket,
        patience: float,
        *,
        client: bool,
    ) -> None:
        from websockets import frames  # of an extra, which the bare port does without

        super().__init__(patience)
        self.over: asyncio.Future[int] = self._loop.create_future()
        self._library, self._transport = library, transport
        self._client = client
        self._apply_mask: Mask = frames.apply_mask  # type: ignore[attr-defined] # by eight bytes and more
        self._begun = b""  # a head, or a control frame, that is not whole yet
        self._message: int | None = None  # bytes of the message that is not whole yet
        self._left, self._key = 0, b""  # bytes of the frame that are to come, and their mask
        connection = transport.get_extra_info("socket")
        if connection.family != socket.AF_UNIX:  # asyncio leaves out sockets that a listener accepted
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_protocol(self)
        self._begin(session)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns where the peer's next bytes go, behind those that are not whole."""
        self._buffer[: len(self._begun)] = self._begun
        return self._buffer[len(self._begun) :]

    def buffer_updated(self, nbytes: int) -> None:
        """Sends the session the parts of messages that came."""
        data, at = self._buffer[: len(self._begun) + nbytes], 0
        parts = list[memoryview]()
        while at < len(data):
            if self._left:
                part = data[at : at + self._left]
                parts.append(self._unmasked(part))
                at, self._left = at + len(part), self._left - len(part)
            elif head := self._head(data[at:]):
                at += head
            else:
                break
        self._begun = bytes(data[at:])
        if parts and not self.over.done():
            self._forward(parts[0] if len(parts) == 1 else memoryview(b"".join(parts)))

    def resume_writing(self) -> None:
        """Takes more from the session, unless it is over."""
        if self.over.done():
            self._may_read()
        else:
            super().resume_writing()

    def eof_received(self) -> bool | None:
        """Tells the library that nothing comes any more."""
        return self._library.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the library that the connection is gone."""
        self._may_read()
        if self._session is not None:
            self._loop.remove_reader(self._session)
        self._library.connection_lost(exc)

    async def flush(self) -> None:
        """Waits until the session has what came before the peer closed."""
        if self._session is not None and self._unsent:
            self._loop.remove_writer(self._session)
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._loop.sock_sendall(self._session, self._unsent)

    def close(self, code: int) -> None:
        """Carries nothing from now on: the library is to close with this code."""
        if self.over.done():
            return
        self.over.set_result(code)
        self._unsent = self._buffer[:0]
        if self._session is not None:
            self._loop.remove_reader(self._session)
            self._loop.remove_writer(self._session)
        self._transport.resume_reading()  # for the peer's goodbye

    def _end(self) -> None:
        self.close(OVER)

    def _write(self, data: bytes) -> None:
        key = os.urandom(4) if self._client else b""
        self._transport.write(head_of(len(data), key) + (self._apply_mask(data, key) if key else data))

    def _head(self, data: memoryview) -> int:
        """Reads the head of a frame, or gives the library a control frame. Returns how many bytes that took,
        0 where it is not whole."""
        if len(data) < 2:
            return 0
        kind, final, size, masked = data[0] & 15, bool(data[0] & FIN), data[1] & 127, bool(data[1] & MASKED)
        wide = {126: 2, 127: 8}.get(size, 0)
        head = 2 + wide + 4 * masked
        if len(data) < head:
            return 0
        if wide:
            size = int.from_bytes(data[2 : 2 + wide], "big")
        if data[0] & RESERVED or masked is self._client:
            self.close(VIOLATION)
        elif kind in CONTROL and final and size <= MOST_CONTROL:
            if len(data) < head + size:
                return 0
            self._library.data_received(bytes(data[: head + size]))
            return head + size
        else:
            self._count(kind, size, final=final)
        self._left, self._key = size, bytes(data[head - 4 : head]) if masked else b""
        return head

    def _count(self, kind: int, size: int, *, final: bool) -> None:
        """Counts a frame into its message, and closes where it may not come."""
        if kind == TEXT:
            return self.close(NOT_BINARY)
        if kind not in (CONTINUATION, BINARY) or (kind == BINARY) is (self._message is not None):
            return self.close(VIOLATION)
        self._message = (self._message or 0) + size
        if self._message > FRAME_BYTES:
            self.close(TOO_LARGE)
        if final:
            self._message = None

    def _unmasked(self, part: memoryview) -> memoryview:
        if not self._key:
            return part
        key, turn = self._key, len(part) % 4
        self._key = key[turn:] + key[:turn]  # of the rest
        return memoryview(self._apply_mask(part, key))


def head_of(size: int, key: bytes) -> bytes:
    """Returns the head of a binary message of one frame. key: four bytes that mask it, none at a server.

    >>> head_of(3, b""), head_of(300, bytes(4))
    (b'\\x82\\x03', b'\\x82\\xfe\\x01,\\x00\\x00\\x00\\x00')
    """
    masked = MASKED if key else 0
    if size <= MOST_CONTROL:
        return struct.pack(">BB", FIN | BINARY, masked | size) + key
    if size < 1 << 16:
        return struct.pack(">BBH", FIN | BINARY, masked | 126, size) + key
    return struct.pack(">BBQ", FIN | BINARY, masked | 127, size) + key
