"""Connecting to `WS /v1/two-party`: a party whose bytes a WebSocket carries.

A socket pair lies between: its one end is the engine's, which speaks the two-party protocol over it as over
TCP; a thread carries bytes between the other and the WebSocket (see `carrier`). TLS and the bearer token are
those of the WebSocket.
"""

from __future__ import annotations

import socket
import ssl
from urllib.parse import SplitResult, urlsplit, urlunsplit

from tacita.errors import InputError
from tacita.protocol.http.wire import TOKEN
from tacita.protocol.party import TIMEOUT, Party, over_socket
from tacita.remote.websocket.carrier import Carrier, Target

SCHEMES = {"https": "wss", "wss": "wss", "http": "ws", "ws": "ws"}


class CarriedParty(Party):
    """A party whose last bytes are on their way when it is closed, and waited for."""

    def __init__(self, party: Party, carrier: Carrier) -> None:
        super().__init__(party.native)
        self._carrier = carrier

    def close(self) -> None:
        """Writes what is queued and closes the WebSocket; a server that is gone already is no error."""
        super().close()
        self._carrier.ended()


def dial(
    url: str,
    *,
    token: str | None,
    ssl_context: ssl.SSLContext | None = None,
    insecure_plain: bool = False,
    timeout: float = TIMEOUT,
    threads: int = 0,
) -> Party:
    """Connects as the client. url: wss:// or https://, with the model in its query. token: None for a server
    that asks for none.

    ssl_context: whom to trust, by default whom the system does. insecure_plain: ws:// and http:// as well, by
    which whoever is on the way reads the token and every message. timeout: seconds of silence after which the
    server is given up. threads: 0 for all cores. Costs this process 2 ms of a core a megabyte and 0.2 ms a
    round beside bare TLS.
    Raises InputError for what cannot be dialled, RefusedError when the server does not let this client in,
    LateError, PeerError.
    """
    target = _target(url, token, ssl_context, insecure_plain=insecure_plain)
    ours, theirs = socket.socketpair()
    try:
        carrier = Carrier.started(target, theirs, timeout)
        return CarriedParty(over_socket(ours, client=True, timeout=timeout, threads=threads), carrier)
    except BaseException:
        ours.close()
        raise


def _target(url: str, token: str | None, context: ssl.SSLContext | None, *, insecure_plain: bool) -> Target:
    """Checks what the caller gave; neither the token nor anything beside the host is repeated in errors."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, SplitResult("", "", "", "", "")
    scheme = SCHEMES.get(parts.scheme)
    if not host or scheme is None or parts.username is not None or parts.fragment:
        raise InputError("connect: not the address of a server", hint="https://HOST[:PORT]/...")
    if scheme == "ws" and not insecure_plain:
        raise InputError(
            f"connect: {host} would be asked without TLS, and the token sent in the clear",
            hint="use https:// or, on a machine of your own, ask for a plain connection by name",
        )
    if token is not None and not TOKEN.fullmatch(token):
        raise InputError(
            "connect: the token is no text of printable characters", hint="see how it was stored"
        )
    where = urlunsplit((scheme, parts.netloc, parts.path, parts.query, ""))
    name = f"[{host}]" if ":" in host else host
    trusted = (context or ssl.create_default_context()) if scheme == "wss" else None
    return Target(where, f"{name}:{port}" if port else name, token, trusted)
