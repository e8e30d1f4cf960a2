"""Who calls: a bearer token, hashed and looked up; how often they may; what they may still take today.

All of it is in the event loop's thread, where counting needs no locks: a dependency that is no coroutine
would run in others. A call of nobody is answered before its body is read. Calls of nobody and wrong tokens
are counted by address, so that guessing (which 256 bits make hopeless) costs the guesser and not the server.
A call with a valid token is counted by its client alone: strangers behind the same address cost it nothing.
"""

from __future__ import annotations

import base64
import math
from typing import Annotated

from fastapi import Depends
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacita.server.connections import network
from tacita.server.core.accounts import STRANGER
from tacita.server.core.service import Service
from tacita.server.http.problems import Fault
from tacita.server.sessions.messages import Used
from tacita.server.store import tokens, usage
from tacita.server.store.tables import Who

WRONG_PER_MINUTE = 30
SUBPROTOCOL = "tacita.bearer."
CHALLENGE = {"WWW-Authenticate": "Bearer"}
READING = ("GET", "HEAD", "DELETE")  # what a caller without a token may call: nothing there is its own


async def service_of(connection: HTTPConnection) -> Service:
    service = connection.app.state.service
    assert isinstance(service, Service)
    return service


async def caller(connection: HTTPConnection) -> Who:
    """Returns the client that calls. Raises Fault: 401, or 429 for one who calls too often."""
    service = await service_of(connection)
    who = _client_of(service, connection, _address(connection))
    if who.quota.per_minute is not None:
        _require_rate(service, f"client {who.id}", who.quota.per_minute)
    return who


async def operator(connection: HTTPConnection) -> Who:
    """Returns the client that calls, an operator. Raises Fault."""
    who = await caller(connection)
    if not who.operator:
        raise Fault(403, "not-operator", "metrics are for operators", "tacita token add NAME --operator")
    return who


def require_quota(service: Service, who: Who, count: int = 1) -> None:
    """Raises Fault (429) for a client that has no text, no seconds or not so many bytes left today."""
    if what := usage.lacking(service.ledger, who, Used(1, bytes=count)):
        raise _quota_fault(service, what, f"this client had its {what} of today")


def reserve_quota(service: Service, who: Who, wanted: Used) -> None:
    """Charges what a call is about to use. Raises Fault (429) for a client that has less left today."""
    if what := usage.reserve(service.ledger, who, wanted):
        detail = f"this takes {vars(wanted)[what]:g} {what}, more than this client has today"
        raise _quota_fault(service, what, detail)


def _quota_fault(service: Service, what: str, detail: str) -> Fault:
    service.metrics.refused(f"quota-{what}")
    later = {"Retry-After": str(usage.seconds_to_midnight(service.ledger))}
    return Fault(429, "quota", detail, "wait until midnight (UTC), or ask the operator for more", later)


def _client_of(service: Service, connection: HTTPConnection, address: str) -> Who:
    scheme, _, token = _authorization(connection).partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else ""
    who = tokens.client_of(service.ledger, token) if token else None
    if who is not None:
        return who
    _require_rate(service, f"address {address}", service.settings.address_per_minute)
    if not token and service.visitors:
        return _stranger(connection)
    if service.visitors and (visitor := service.visitors.admit(token, address)):
        return visitor
    if token:
        service.metrics.refused("token")
        _require_rate(service, f"wrong {address}", WRONG_PER_MINUTE)
    raise _nobody()


def _stranger(connection: HTTPConnection) -> Who:
    """Returns STRANGER for a call without a token. Raises Fault (401) for one that needs a visitor."""
    if connection.scope.get("method") not in READING:
        raise _nobody("GET /v1/models offers a token")
    return STRANGER


def _authorization(connection: HTTPConnection) -> str:
    """Returns what stands, or would stand, in `Authorization`. Pages in a browser cannot set that header for
    a WebSocket, and name the token among its subprotocols, in base64url without padding."""
    for name in connection.scope.get("subprotocols", ()):
        if name.startswith(SUBPROTOCOL):
            return f"Bearer {_decode_token(name.removeprefix(SUBPROTOCOL))}"
    return connection.headers.get("authorization", "")


def _nobody(hint: str = "tacita token add") -> Fault:
    """Returns a new 401 each time: an exception that is kept keeps every frame in which it was raised."""
    return Fault(401, "no-token", "this server answers those who have a token", hint, CHALLENGE)


def _decode_token(text: str) -> str:
    """Returns a token from base64url; a text that is no token where it is not base64url."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except ValueError:
        return "none"


def _require_rate(service: Service, name: str, per_minute: int) -> None:
    if wait := service.rates.wait(name, per_minute):
        service.metrics.refused("rate")
        later = {"Retry-After": str(math.ceil(wait))}
        raise Fault(429, "too-often", "too many calls", f"at most {per_minute} a minute", later)


def _address(connection: HTTPConnection) -> str:
    try:
        return network(connection.client.host if connection.client else "")
    except ValueError:
        return "unknown"


Caller = Annotated[Who, Depends(caller)]
Operator = Annotated[Who, Depends(operator)]
At = Annotated[Service, Depends(service_of)]


# Headers of every answer: what a browser must not do with it. A plain ASGI layer, since it must not touch
# bodies and streams.

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
LASTING = {"Strict-Transport-Security": "max-age=31536000"}


class Headers:
    """Adds the headers of every answer. app: what answers. lasting: whether the certificate is one that
    browsers will trust for a year; under a self-signed one, to insist on TLS would shut people out of
    whatever comes after it."""

    def __init__(self, app: ASGIApp, *, lasting: bool) -> None:
        self._app, self._headers = app, HEADERS | (LASTING if lasting else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one call; a path may have set a header of its own, which stays."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
