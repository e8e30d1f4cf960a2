"""What a connection that did not come about means: the server's own words where it answered in due form."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from pydantic import ValidationError
from websockets.exceptions import InvalidHandshake, InvalidProxy, InvalidStatus, InvalidURI
from websockets.http11 import Response

from tacita.errors import InputError, LateError, PeerError, RefusedError, TacitaError
from tacita.protocol.http.wire import PROBLEM, Problem
from tacita.protocol.refusal import Reason

CONNECTING = 30.0  # seconds for the connection, TLS and the upgrade
MOST_BODY = 64 << 10  # bytes of an answer that are looked at
REFUSALS: dict[int, tuple[str, str]] = {
    401: ("the server does not know this token", "ask its operator for one"),
    403: ("the server does not serve this client", "ask its operator"),
    429: ("the server answers no more of this client now", "try again later"),
    503: ("the server is full", "try again later"),
}
OTHERS: dict[int, tuple[str, str]] = {
    404: ("the server has no such model, or no two-party protocol", "ask it for its models"),
    426: ("the server wants another protocol", "is it a tacita server?"),
}


def refusal(error: Exception, host: str) -> TacitaError:
    """The error to raise. host: as it is named, which says nothing of the token and the query."""
    match error:
        case InvalidStatus():
            return of_answer(error.response, host)
        case TimeoutError():
            return LateError(f"connect: {host} did not answer within {CONNECTING:.0f} s", hint="try again")
        case ssl.SSLCertVerificationError():
            return PeerError(
                f"connect: {host} is not trusted ({error.verify_message})",
                hint="trust its certificate, or dial it by a name that the certificate is for",
            )
        case InvalidURI() | InvalidProxy():
            return InputError(f"connect: {host} cannot be dialled so", hint="https://HOST[:PORT]/...")
        case OSError():
            return PeerError(f"connect: {host}: {error.strerror or 'no connection'}", hint="is it running?")
        case InvalidHandshake() | EOFError():
            return PeerError(
                f"connect: {host} does not speak our protocol", hint="is it a tacita server? look at the URL"
            )
    return PeerError(f"connect: {host}: {type(error).__name__}", hint="a defect: please report it")


def of_answer(response: Response, host: str) -> TacitaError:
    """An upgrade that was answered with this instead."""
    status = response.status_code
    text, hint = (REFUSALS | OTHERS).get(
        status, (f"the server answered {status}", "is it a tacita server? look at the URL")
    )
    if problem := problem_of(response):
        text, hint = printable(problem.detail or problem.title) or text, printable(problem.hint) or hint
    after = response.headers.get("Retry-After", "") if status in (429, 503) else ""
    if after.isascii() and after.isdigit() and len(after) < 6:
        hint = f"{hint} (after {int(after)} s)"
    return _kind(status)(f"connect: {host}: {text}", hint=hint)


def problem_of(response: Response) -> Problem | None:
    """Its body, if that is a problem in due form."""
    body = response.body or b""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != PROBLEM or len(body) > MOST_BODY:
        return None
    try:
        return Problem.model_validate_json(bytes(body))
    except ValidationError:
        return None


def printable(text: str) -> str:
    """Without what could steer a terminal."""
    return "".join(each if each.isprintable() else " " for each in text).strip()


def _kind(status: int) -> Callable[..., TacitaError]:
    if status == 503:
        return lambda text, *, hint: RefusedError(text, hint=hint, reason=Reason.FULL)
    return RefusedError if status in REFUSALS else PeerError
