"""Heads of calls that two readers might read differently: refused before h11 takes them.

RFC 9112 lets a server take what is refused here: a length beside `Transfer-Encoding`, and values folded over
several lines (sections 6.3 and 5.2). Behind a proxy, what one of the two takes otherwise is a second call
inside a first.
"""

from __future__ import annotations

import re

import h11

HEAD_BYTES = 32 << 10
_END = re.compile(rb"\n\r?\n")
_FOLD = re.compile(rb"\n[ \t]")
_LENGTH = re.compile(rb"\ncontent-length[ \t]*:", re.IGNORECASE)
_CODING = re.compile(rb"\ntransfer-encoding[ \t]*:", re.IGNORECASE)


class StrictConnection(h11.Connection):
    """The server's end of a connection. A head that ends has HEAD_BYTES at most, however it came; h11 itself
    bounds one that does not end."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """As of h11. Raises RemoteProtocolError also for what stands above."""
        if self.their_state is h11.IDLE:
            _require_plain(self.trailing_data[0])
        return super().next_event()


def _require_plain(data: bytes) -> None:
    """data: what came of a head so far, and perhaps of its body."""
    end = _END.search(data)
    if end is None:
        return
    head = data[: end.start()]
    if len(head) > HEAD_BYTES:
        raise h11.RemoteProtocolError("head too long")
    if _FOLD.search(head):
        raise h11.RemoteProtocolError("obsolete line folding")
    if _LENGTH.search(head) and _CODING.search(head):
        raise h11.RemoteProtocolError("Content-Length beside Transfer-Encoding")
