"""Calls that are refused before anything answers them: heads that two readers might read differently, and
calls of foreign pages.

RFC 9112 lets a server take what is refused here: a length beside `Transfer-Encoding`, and values folded over
several lines (sections 6.3 and 5.2). Behind a proxy, what one of the two takes otherwise is a second call
inside a first.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

import h11
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from tacita.errors import InputError
from tacita.server.http.problems import Fault, response

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
        """Returns what h11 returns. Raises RemoteProtocolError also for what `_require_plain` refuses."""
        if self.their_state is h11.IDLE:
            _require_plain(self.trailing_data[0])
        return super().next_event()


def _require_plain(data: bytes) -> None:
    """Raises RemoteProtocolError for a head that two readers might read differently. data: what came of the
    head so far, and perhaps of its body."""
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


# Which pages may call, and under which names: a browser lets every page that it shows call every address
# that it reaches, those of its own machine included, and says only which page it was (`Origin`).
#
# A plain ASGI layer, as `auth.Headers` is, for calls and WebSockets.

SECURE = {"ws": "http", "wss": "https"}  # a WebSocket's scheme -> that of pages beside it


class Origins:
    """Refuses calls of foreign pages. app: what answers. named: origins that may call beside the server's
    own. hosts: names that `Host` may have, None for any: a page whose name was bound to this machine's
    address shows its own name there."""

    def __init__(self, app: ASGIApp, named: Collection[str], hosts: Collection[str] | None) -> None:
        self._app, self._named, self._hosts = app, frozenset(named), hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one call, or sends 403 or 421 in its place."""
        fault = self._fault(HTTPConnection(scope)) if scope["type"] in ("http", "websocket") else None
        await (response(fault) if fault else self._app)(scope, receive, send)

    def _fault(self, connection: HTTPConnection) -> Fault | None:
        host, origin = connection.headers.get("host", ""), connection.headers.get("origin")
        if self._hosts is not None and _name(host) not in self._hosts:
            return Fault(421, "wrong-host", "this server has another name", "its operator names it by --name")
        scheme = connection.scope["scheme"]
        if origin in (None, f"{SECURE.get(scheme, scheme)}://{host}") or origin in self._named:
            return None
        return Fault(
            403, "foreign-origin", "a page of another site", "its operator names sites by [service] origin"
        )


def origin_of(text: str) -> str:
    """Returns an origin as browsers write it. Raises InputError for another text."""
    parts = urlsplit(text)
    if (
        parts.scheme not in ("http", "https")
        or f"{parts.scheme}://{parts.netloc}" != text
        or not parts.netloc
    ):
        raise InputError(
            f"serve: {text!r:.80} is not an origin",
            hint="[service] origin: https://NAME or https://NAME:PORT",
        )
    return text.lower()


def hosts_of(host: str, names: Collection[str], origins: Collection[str]) -> frozenset[str]:
    """Returns the names of a server that is for its own machine. host: where it listens. names: further
    names. origins: those of a proxy before it."""
    before = (urlsplit(origin).hostname for origin in origins)
    own = {"localhost", "127.0.0.1", "::1", host, *names, *filter(None, before)}
    return frozenset(name.lower() for name in own)


def _name(host: str) -> str:
    """Returns the name in a Host header, without the port; empty where there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
