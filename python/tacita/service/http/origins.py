"""Which pages may call, and under which names: a browser lets every page that it shows call every address
that it reaches, those of its own machine included, and says only which page it was (`Origin`).

A plain ASGI layer, as `headers` is, for calls and WebSockets.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from tacita.errors import InputError
from tacita.service.http.problems import Fault, response

SECURE = {"ws": "http", "wss": "https"}  # a WebSocket's scheme -> that of pages beside it


class Origins:
    """app: what answers. named: origins that may call beside the server's own. hosts: names that `Host` may
    have, None for any: a page whose name was bound to this machine's address shows its own name there."""

    def __init__(self, app: ASGIApp, named: Collection[str], hosts: Collection[str] | None) -> None:
        self._app, self._named, self._hosts = app, frozenset(named), hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One call, or 403 or 421 in its place."""
        fault = self._fault(HTTPConnection(scope)) if scope["type"] in ("http", "websocket") else None
        await (response(fault) if fault else self._app)(scope, receive, send)

    def _fault(self, connection: HTTPConnection) -> Fault | None:
        host, origin = connection.headers.get("host", ""), connection.headers.get("origin")
        if self._hosts is not None and _name(host) not in self._hosts:
            return Fault(421, "wrong-host", "this server has another name", "its operator names it by --name")
        scheme = connection.scope["scheme"]
        if origin in (None, f"{SECURE.get(scheme, scheme)}://{host}") or origin in self._named:
            return None
        return Fault(403, "foreign-origin", "a page of another site", "its operator names sites by --origin")


def origin_of(given: str) -> str:
    """An origin as browsers write it. Raises InputError for another text."""
    parts = urlsplit(given)
    if (
        parts.scheme not in ("http", "https")
        or f"{parts.scheme}://{parts.netloc}" != given
        or not parts.netloc
    ):
        raise InputError(
            f"serve: {given!r:.80} is not an origin", hint="--origin https://NAME or https://NAME:PORT"
        )
    return given.lower()


def hosts_of(host: str, names: Collection[str], origins: Collection[str]) -> frozenset[str]:
    """The names of a server that is for its own machine. host: that it listens on. names: further ones.
    origins: of a proxy before it."""
    own = {"localhost", "127.0.0.1", "::1", host, *names, *filter(None, map(_name_of, origins))}
    return frozenset(name.lower() for name in own)


def _name(host: str) -> str:
    """Of a Host header, without the port; empty for none that is."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _name_of(origin: str) -> str | None:
    return urlsplit(origin).hostname
