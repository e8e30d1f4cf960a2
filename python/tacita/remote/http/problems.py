"""From a status that is no success to an error of ours, with what the server says and what to do."""

from __future__ import annotations

from pydantic import ValidationError

from tacita.errors import InputError, PeerError, RefusedError, TacitaError
from tacita.protocol.http.wire import Problem

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
