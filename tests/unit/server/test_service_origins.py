"""Pages of other sites, and names that are not the server's: refused before anything answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tacita.errors import InputError
from tacita.server.http.strict import Origins, hosts_of, origin_of

NAMED = ["https://site.example"]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def status(scheme: str, host: str, origin: str | None, hosts: frozenset[str] | None = None) -> int:
    """Of a call, or of a WebSocket's upgrade, with these headers."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    kind = "websocket" if scheme.startswith("ws") else "http"
    headers = [(b"host", host.encode()), *([(b"origin", origin.encode())] if origin is not None else [])]
    scope = {"type": kind, "scheme": scheme, "path": "/", "headers": headers, "query_string": b""}
    asyncio.run(Origins(answer, NAMED, hosts)(scope, None, send))  # type: ignore[arg-type]
    return int(sent[0]["status"])


@pytest.mark.parametrize("scheme", ["https", "wss"])
@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, 200),
        ("https://model.example:8443", 200),
        ("https://site.example", 200),
        ("https://model.example", 403),
        ("http://model.example:8443", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_pages_of_other_sites_are_refused_unless_they_are_named(
    scheme: str, origin: str | None, expected: int
) -> None:
    assert status(scheme, "model.example:8443", origin) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:8443", 200),
        ("[::1]:8443", 200),
        ("127.0.0.1", 200),
        ("model.example", 200),
        ("SITE.example", 200),
        ("evil.example:8443", 421),
        ("localhost.evil.example", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
def test_a_server_for_its_own_machine_answers_by_its_own_names_alone(host: str, expected: int) -> None:
    assert status("https", host, None, hosts_of("127.0.0.1", ["model.example"], NAMED)) == expected


@pytest.mark.parametrize("given", ["*", "site.example", "https://", "https://a.example/", "ftp://x", "null"])
def test_what_is_no_origin_is_refused(given: str) -> None:
    with pytest.raises(InputError, match="is not an origin"):
        origin_of(given)
