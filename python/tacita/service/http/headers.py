"""Headers of every answer: what a browser must not do with it. A plain ASGI layer, since it must not touch
bodies and streams."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
LASTING = {"Strict-Transport-Security": "max-age=31536000"}


class Headers:
    """app: what answers. lasting: whether the certificate is one that browsers will trust for a year; under a
    self-signed one, to insist on TLS would shut people out of whatever comes after it."""

    def __init__(self, app: ASGIApp, *, lasting: bool) -> None:
        self._app, self._headers = app, HEADERS | (LASTING if lasting else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One call; a path may have set a header of its own, which stays."""

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    found.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, told if scope["type"] == "http" else send)
