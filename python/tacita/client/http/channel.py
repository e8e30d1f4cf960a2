"""Requests to one service: with the token, tried again where that is safe, read up to a limit.

Every body is streamed and counted: a server that sends more than it may is hung up on. Redirects are not
followed, bodies are not decompressed, and no environment variable changes where a request goes.

When a request is sent again: after errors that pass, after a growing and partly random time, a few times.

>>> [Patience(chance=lambda: 1.0).delay(attempt) for attempt in (1, 2, 3, 6)]
[0.5, 1.0, 2.0, None]
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import httpx2
from pydantic import ValidationError

from tacita.client.cost import Meter
from tacita.client.http.trust import Address
from tacita.errors import FileError, InputError, LateError, PeerError, RefusedError, TacitaError
from tacita.plans.wire import API, TOKEN, Problem, Wire

# From a status that is no success to an error of ours, with what the server says and what to do.

KINDS: dict[int, tuple[type[TacitaError], str]] = {
    400: (InputError, "the client and the server may be of different releases"),
    401: (InputError, "pass the token that the operator gave you: --token-file, TACITA_TOKEN, or token="),
    403: (RefusedError, "this token does not admit it: ask the operator"),
    404: (InputError, "it is not there, or not for this token: see what the server offers"),
    409: (RefusedError, "it clashes with what the server has: try again"),
    410: (RefusedError, "the server has removed it: ask again"),
    412: (RefusedError, "the server serves another plan now: connect again"),
    413: (RefusedError, "the server takes no body of this size"),
    422: (InputError, "the client and the server may be of different releases"),
    429: (RefusedError, "you ask more than this token may: wait, or ask the operator"),
    503: (RefusedError, "the server is busy or not ready: try again later"),
}
OURS = (401,)  # statuses whose own hint, of a server to its operator, helps no client
REDIRECT = "redirects are not followed: connect to the address that it names, if you trust it"
OTHER = "the server, or something before it, fails: try again later, or ask its operator"


def refused(what: str, status: int, body: bytes) -> TacitaError:
    """what: was asked. body: problem+json, or anything."""
    kind, hint = KINDS.get(status, (PeerError, REDIRECT if 300 <= status < 400 else OTHER))
    problem = _problem(body)
    if problem is None:
        return kind(f"{what}: the server answers with status {status}", hint=hint)
    detail = f": {problem.detail}" if problem.detail else ""
    better = "" if status in OURS else problem.hint
    return kind(f"{what}: {problem.title}{detail} (status {status})", hint=better or hint)


def told(what: str, problem: Problem | None) -> PeerError:
    """The error of a request that failed at the server."""
    if problem is None:
        return PeerError(f"{what}: failed at the server", hint=OTHER)
    detail = f": {problem.detail}" if problem.detail else ""
    return PeerError(f"{what}: failed at the server: {problem.title}{detail}", hint=problem.hint or OTHER)


def _problem(body: bytes) -> Problem | None:
    try:
        return Problem.model_validate_json(body)
    except ValidationError:
        return None


PASSING = frozenset((429, 502, 503, 504))  # statuses that another attempt may change


@dataclass(frozen=True)
class Patience:
    """attempts: of one request. first, longest: seconds of the first wait, and of any that is our own choice;
    each is twice the one before, times a number between 1/2 and 1. most: seconds that a server may ask us to
    wait. sleep, chance, clock: of the process, or a test's."""

    attempts: int = 6
    first: float = 0.5
    longest: float = 30.0
    most: float = 300.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    def delay(self, attempt: int, wished: float | None = None) -> float | None:
        """Seconds before the next attempt, after so many; None when there should be none. wished: the
        server's Retry-After."""
        if attempt >= self.attempts or (wished or 0.0) > self.most:
            return None
        own = min(self.longest, self.first * 2.0 ** (attempt - 1)) * (0.5 + self.chance() / 2)
        return max(own, wished or 0.0)


def seconds_of(header: str | None) -> float | None:
    """Of a Retry-After that counts seconds; None for a date, or anything else."""
    text = (header or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


JSON_BYTES = 4 << 20  # of a JSON body
READ = 1 << 20  # bytes of a file at a time
SAFE = frozenset(("GET", "PUT", "DELETE"))  # the same, done twice
AUTHORIZATION, BEARER = "Authorization", "Bearer "
KEY = "Idempotency-Key"  # makes a POST the same, done twice
W = TypeVar("W", bound=Wire)
Body = bytes | Path
Pairs = Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """what: was asked, for errors. Of any status; the body is whole and within its limit."""

    what: str
    status: int
    headers: httpx2.Headers = field(repr=False)
    body: bytes = field(repr=False)

    def require(self) -> Reply:
        """Itself. Raises what `problems.refused` makes unless it is a success."""
        if not 200 <= self.status < 300:
            raise refused(self.what, self.status, self.body)
        return self

    def read(self, kind: type[W]) -> W:
        """The body, checked. Raises PeerError for another, and as `require`."""
        try:
            return kind.model_validate_json(self.require().body)
        except ValidationError:
            pass
        raise PeerError(
            f"{self.what}: the answer is no {kind.__name__} of the API", hint="is it a tacita service?"
        )


@dataclass(frozen=True)
class Call:
    """A request: path below /v1, body in memory or a file."""

    method: str
    path: str
    params: Pairs = field(default_factory=dict)
    headers: Pairs = field(default_factory=dict)
    body: Body | None = field(default=None, repr=False)

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again when nobody knows what became of it."""
        return self.method in SAFE or KEY in self.headers


@dataclass(frozen=True)
class Channel:
    """client: with the token in its headers. meter: counts bytes of bodies. met: set by the first
    response."""

    address: Address
    client: httpx2.AsyncClient = field(repr=False)
    patience: Patience
    meter: Meter
    met: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def token(self) -> str | None:
        """That calls show, if any."""
        said = self.client.headers.get(AUTHORIZATION)
        return None if said is None else said.removeprefix(BEARER)

    def take(self, token: str) -> None:
        """Calls show this token from now on. Raises PeerError for what is no token."""
        if not TOKEN.fullmatch(token):
            raise PeerError("connect: the server offers a token that is none", hint="is it a tacita service?")
        self.client.headers[AUTHORIZATION] = f"{BEARER}{token}"

    def metered(self, meter: Meter) -> Channel:
        """The same connection, counted apart."""
        return replace(self, meter=meter)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Pairs | None = None,
        headers: Pairs | None = None,
        body: Body | None = None,
        most: int = JSON_BYTES,
    ) -> Reply:
        """The reply, of any status, to a request that is repeated while it fails in passing, if it is one
        that may be. path: below /v1. Raises PeerError: no connection, one that broke, too long a body."""
        call = Call(method, path, dict(params or {}), dict(headers or {}), body)
        attempt = 0
        while True:
            attempt += 1
            outcome = await self._tried(call, most)
            if isinstance(outcome, Reply) and outcome.status not in PASSING:
                return outcome
            wait = self._wait(call, outcome, attempt)
            if wait is None:
                if isinstance(outcome, Reply):
                    return outcome
                raise outcome
            await self.patience.sleep(wait)

    @asynccontextmanager
    async def opened(self, call: Call) -> AsyncIterator[httpx2.Response]:
        """One attempt; the body is not read yet. Raises httpx2.TransportError."""
        headers, body = dict(call.headers), call.body
        if isinstance(body, Path):
            headers["Content-Length"] = str(body.stat().st_size)
        content = body if isinstance(body, bytes | None) else self._pieces(body)
        url = f"{self.address.url}{API}{call.path}"
        stream = self.client.stream(call.method, url, params=call.params, headers=headers, content=content)
        async with stream as response:
            self.meter.sent += len(body) if isinstance(body, bytes) else 0
            self.met.set()
            yield response

    def what(self, call: Call) -> str:
        """A request in the words of an error."""
        return f"{call.method} {self.address.url}{API}{call.path}"

    async def read(self, response: httpx2.Response, most: int, what: str) -> AsyncGenerator[bytes, None]:
        """Its body, piece by piece. Raises PeerError where it goes on after `most` bytes."""
        count = 0
        async with aclosing(response.aiter_raw()) as pieces:
            async for piece in pieces:
                count += len(piece)
                self.meter.received += len(piece)
                if count > most:
                    raise PeerError(
                        f"{what}: more than {most} bytes", hint="the server sends what it may not"
                    )
                yield piece

    async def _tried(self, call: Call, most: int) -> Reply | PeerError:
        """The reply, or an error that another attempt may change."""
        what = self.what(call)
        try:
            async with self.opened(call) as response:
                async with aclosing(self.read(response, most, what)) as pieces:
                    content = b"".join([piece async for piece in pieces])
                return Reply(what, response.status_code, response.headers, content)
        except httpx2.TransportError as error:
            return failure(what, error)

    def _wait(self, call: Call, outcome: Reply | PeerError, attempt: int) -> float | None:
        """Seconds until the next attempt, None where there should be none."""
        if isinstance(outcome, UntrustedPeerError) or not call.repeatable:
            return None
        if isinstance(outcome, AbsentPeerError) and not self.met.is_set():
            return None  # a wrong address, more likely than a server that starts
        wished = seconds_of(outcome.headers.get("Retry-After")) if isinstance(outcome, Reply) else None
        return self.patience.delay(attempt, wished)

    async def _pieces(self, path: Path) -> AsyncIterator[bytes]:
        try:
            with path.open("rb") as file:
                while piece := await asyncio.to_thread(file.read, READ):
                    self.meter.sent += len(piece)
                    yield piece
        except OSError as error:
            raise FileError(f"{path}: cannot be read ({error})", hint="ask again") from error


class UntrustedPeerError(PeerError):
    """The server's certificate is not one that is trusted: no other attempt changes that."""


class AbsentPeerError(PeerError):
    """Nobody listens at the address."""


def failure(what: str, error: httpx2.TransportError) -> PeerError:
    """Ours for an error of the connection, without anything of the request but its address."""
    if cause := _certificate_error(error):
        return UntrustedPeerError(
            f"{what}: the server is not trusted ({cause})",
            hint="compare the certificate's SHA-256 with the operator's: --trust PEM, or --fingerprint",
        )
    if isinstance(error, httpx2.TimeoutException):
        return LateError(f"{what}: the server is silent ({type(error).__name__})", hint="is it reachable?")
    kind = AbsentPeerError if isinstance(error, httpx2.ConnectError) else PeerError
    return kind(
        f"{what}: no connection ({type(error).__name__}: {str(error)[:200]})",
        hint="is the address right, and the server up?",
    )


def client_of(context: ssl.SSLContext, token: str | None, timeout: float) -> httpx2.AsyncClient:
    """token: printable characters. timeout: seconds of silence. Raises InputError, without the token."""
    headers = {"Accept-Encoding": "identity"}
    if token is not None:
        if not TOKEN.fullmatch(token):
            raise InputError("connect: the token has characters that no token has", hint="is it a whole one?")
        headers[AUTHORIZATION] = f"{BEARER}{token}"
    return httpx2.AsyncClient(
        verify=context, headers=headers, timeout=timeout, trust_env=False, follow_redirects=False
    )


def _certificate_error(error: BaseException | None) -> str:
    """What was wrong with the certificate, if that is what is behind an error."""
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, ssl.SSLCertVerificationError):
            return getattr(error, "verify_message", "") or str(error)
        error, seen = error.__cause__ or error.__context__, seen + 1
    return ""
