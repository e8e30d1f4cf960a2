"""Sends requests to one service: with the token, repeated where that is safe, read up to a limit.

Every body is streamed and counted: the connection to a server that sends too much is closed. Redirects are
not followed, bodies are not decompressed, and no environment variable changes where a request goes.

A request is sent again after errors that pass, after a growing and partly random time, a few times.

>>> [RetryPolicy(chance=lambda: 1.0).delay(attempt) for attempt in (1, 2, 3, 6)]
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

from tacita.client.calls import Meter
from tacita.client.http.trust import Address
from tacita.errors import FileError, InputError, LateError, PeerError, RefusedError, TacitaError
from tacita.plans.wire import API, TOKEN, Problem, Wire

# From a status that is no success to an error of ours, with what the server says and what to do.

KINDS: dict[int, tuple[type[TacitaError], str]] = {
    400: (InputError, "the client and the server may be of different releases"),
    401: (
        InputError,
        "pass the token that the operator gave you: [network] token_file, TACITA_TOKEN, or token=",
    ),
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
NOT_OURS = "is it a tacita service? look at the address"


def refused(what: str, status: int, body: bytes, after: float | None = None) -> TacitaError:
    """Returns the error for a status that is no success. what: the request. body: problem+json, or
    anything. after: seconds until another attempt, where the server says so."""
    other = REDIRECT if 300 <= status < 400 else OTHER if status >= 500 else NOT_OURS
    kind, hint = KINDS.get(status, (PeerError, other))
    later = f" (after {after:.0f} s)" if after is not None and status in PASSING else ""
    problem = _problem(body)
    if problem is None:
        return kind(f"{what}: the server answers with status {status}", hint=f"{hint}{later}")
    better = "" if status in OURS else problem.hint
    return kind(
        f"{what}: {_text(problem)} (status {status})",
        hint=f"{_plain(better) or hint}{later}",
    )


def server_failure(what: str, problem: Problem | None) -> PeerError:
    """Returns the error of a request that failed at the server."""
    if problem is None:
        return PeerError(f"{what}: failed at the server", hint=OTHER)
    return PeerError(
        f"{what}: failed at the server: {_text(problem)}",
        hint=_plain(problem.hint) or OTHER,
    )


def _text(problem: Problem) -> str:
    return _plain(f"{problem.title}: {problem.detail}" if problem.detail else problem.title)


def _plain(text: str) -> str:
    """Replaces each unprintable character, which could steer a terminal, by a space."""
    return "".join(each if each.isprintable() else " " for each in text).strip()


def _problem(body: bytes) -> Problem | None:
    try:
        return Problem.model_validate_json(body)
    except ValidationError:
        return None


PASSING = frozenset((429, 502, 503, 504))  # statuses that another attempt may change


@dataclass(frozen=True)
class RetryPolicy:
    """How often and after how long a request is sent again. attempts: of one request. first, longest: seconds
    of the first wait, and of any that is our own choice; each is twice the one before, times a number between
    1/2 and 1. most: seconds that a server may ask us to wait. sleep, chance, clock: the process's or a
    test's."""

    attempts: int = 6
    first: float = 0.5
    longest: float = 30.0
    most: float = 300.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    def delay(self, attempt: int, wished: float | None = None) -> float | None:
        """Returns the seconds before the next attempt, after so many; None when there should be none. wished:
        the server's Retry-After."""
        if attempt >= self.attempts or (wished or 0.0) > self.most:
            return None
        own = min(self.longest, self.first * 2.0 ** (attempt - 1)) * (0.5 + self.chance() / 2)
        return max(own, wished or 0.0)


def seconds_of(header: str | None) -> float | None:
    """Reads a Retry-After that counts seconds; None for a date, or anything else."""
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
    """A response of any status, whose body is whole and within its limit. what: the request, for errors."""

    what: str
    status: int
    headers: httpx2.Headers = field(repr=False)
    body: bytes = field(repr=False)

    def require(self) -> Reply:
        """Returns itself. Raises what `refused` makes unless it is a success."""
        if not 200 <= self.status < 300:
            after = seconds_of(self.headers.get("Retry-After"))
            raise refused(self.what, self.status, self.body, after)
        return self

    def read(self, kind: type[W]) -> W:
        """Returns the body as an object of this class. Raises PeerError for any other body, and as
        `require`."""
        try:
            return kind.model_validate_json(self.require().body)
        except ValidationError:
            pass
        raise PeerError(
            f"{self.what}: the answer is no {kind.__name__} of the API", hint="is it a tacita service?"
        )


@dataclass(frozen=True)
class Call:
    """A request: a path below /v1, and a body in memory or a file."""

    method: str
    path: str
    params: Pairs = field(default_factory=dict)
    headers: Pairs = field(default_factory=dict)
    body: Body | None = field(default=None, repr=False)

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again when its outcome is unknown."""
        return self.method in SAFE or KEY in self.headers


@dataclass(frozen=True)
class Channel:
    """A client of one address. client: has the token in its headers. meter: counts bytes of bodies. met: set
    by the first response."""

    address: Address
    client: httpx2.AsyncClient = field(repr=False)
    patience: RetryPolicy
    meter: Meter
    met: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def token(self) -> str | None:
        header = self.client.headers.get(AUTHORIZATION)
        return None if header is None else header.removeprefix(BEARER)

    def take(self, token: str) -> None:
        """Sends this token with all later calls. Raises PeerError for what is no token."""
        if not TOKEN.fullmatch(token):
            raise PeerError("connect: the server offers a token that is none", hint="is it a tacita service?")
        self.client.headers[AUTHORIZATION] = f"{BEARER}{token}"

    def metered(self, meter: Meter) -> Channel:
        return replace(self, meter=meter)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Pairs | None = None,
        headers: Pairs | None = None,
        body: Body | None = None,
    ) -> Reply:
        """Returns the reply, of any status, to a request that is repeated, if it may be, while its errors may
        pass. path: below /v1. Raises PeerError: no connection, one that broke, too long a body."""
        call = Call(method, path, dict(params or {}), dict(headers or {}), body)
        attempt = 0
        while True:
            attempt += 1
            outcome = await self._attempt(call)
            if isinstance(outcome, Reply) and outcome.status not in PASSING:
                return outcome
            wait = self._wait(call, outcome, attempt)
            if wait is None:
                if isinstance(outcome, Reply):
                    return outcome
                raise outcome
            await self.patience.sleep(wait)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[httpx2.Response]:
        """Makes one attempt and yields the response before its body is read. Raises httpx2.TransportError."""
        headers, body = dict(call.headers), call.body
        if isinstance(body, Path):
            headers["Content-Length"] = str(body.stat().st_size)
        content = body if isinstance(body, bytes | None) else self._pieces(body)
        url = f"{self.address.url}{API}{call.path}"
        opening = self.client.stream(call.method, url, params=call.params, headers=headers, content=content)
        async with opening as response:
            self.meter.sent += len(body) if isinstance(body, bytes) else 0
            self.met.set()
            yield response

    def what(self, call: Call) -> str:
        """Names a request for an error."""
        return f"{call.method} {self.address.url}{API}{call.path}"

    async def read(self, response: httpx2.Response, most: int, what: str) -> AsyncGenerator[bytes, None]:
        """Yields the body of a response in pieces. Raises PeerError where it is longer than `most` bytes."""
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

    async def _attempt(self, call: Call) -> Reply | PeerError:
        """Makes one attempt, and returns the reply, or an error that another attempt may change."""
        what = self.what(call)
        try:
            async with self.stream(call) as response:
                async with aclosing(self.read(response, JSON_BYTES, what)) as pieces:
                    content = b"".join([piece async for piece in pieces])
                return Reply(what, response.status_code, response.headers, content)
        except httpx2.TransportError as error:
            return failure(what, error)

    def _wait(self, call: Call, outcome: Reply | PeerError, attempt: int) -> float | None:
        """Returns the seconds until the next attempt, None where there should be none."""
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
    """Raised for a server whose certificate is not trusted: no other attempt changes that."""


class AbsentPeerError(PeerError):
    """Raised where nobody listens at the address."""


def failure(what: str, error: httpx2.TransportError) -> PeerError:
    """Returns our error for one of the connection; of the request it names only the address."""
    if cause := _certificate_error(error):
        return UntrustedPeerError(
            f"{what}: the server is not trusted ({cause})",
            hint="compare the certificate's SHA-256 with the operator's, and trust it: "
            "--trust PEM, or [network] fingerprint",
        )
    if isinstance(error, httpx2.TimeoutException):
        return LateError(f"{what}: the server is silent ({type(error).__name__})", hint="is it reachable?")
    kind = AbsentPeerError if isinstance(error, httpx2.ConnectError) else PeerError
    return kind(
        f"{what}: no connection ({type(error).__name__}: {str(error)[:200]})",
        hint="is the address right, and the server up?",
    )


def client_of(context: ssl.SSLContext, token: str | None, timeout: float) -> httpx2.AsyncClient:
    """Makes an HTTP client. token: printable characters. timeout: seconds of silence. Raises InputError,
    which does not repeat the token."""
    headers = {"Accept-Encoding": "identity"}
    if token is not None:
        if not TOKEN.fullmatch(token):
            raise InputError("connect: the token has characters that no token has", hint="is it a whole one?")
        headers[AUTHORIZATION] = f"{BEARER}{token}"
    return httpx2.AsyncClient(
        verify=context, headers=headers, timeout=timeout, trust_env=False, follow_redirects=False
    )


def _certificate_error(error: BaseException | None) -> str:
    """Returns what was wrong with the certificate, or "" for an error of another cause."""
    depth = 0
    while error is not None and depth < 10:
        if isinstance(error, ssl.SSLCertVerificationError):
            return getattr(error, "verify_message", "") or str(error)
        error, depth = error.__cause__ or error.__context__, depth + 1
    return ""
