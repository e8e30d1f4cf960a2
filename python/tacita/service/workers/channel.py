"""Standard input and output as a channel of messages, of which nothing that is printed becomes part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

from tacita.errors import PeerError
from tacita.service.workers.messages import ORDER_BYTES, Order, Told, line, order


class Channel:
    """Orders from one descriptor, what is told to another. One thread reads, one writes."""

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self._source, self._sink = source, sink

    def orders(self) -> Iterator[Order]:
        """Until the other end is closed. Raises PeerError for too long a line and for no order."""
        while text := self._source.readline(ORDER_BYTES + 1):
            if not text.endswith(b"\n"):
                raise PeerError("an order that is cut off or too long", hint="use one release")
            yield order(text[:-1])

    def tell(self, message: Told) -> None:
        """Raises BrokenPipeError when nobody reads."""
        rest = line(message)
        while rest:
            rest = rest[os.write(self._sink, rest) :]


def take_standard() -> Channel:
    """Of this process. From now on what anything prints, Python or not, goes to standard error, and standard
    input is empty."""
    channel = Channel(os.fdopen(os.dup(0), "rb"), os.dup(1))
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return channel
