"""A party's end of a connection, made by the native engine: TLS 1.3, or plain TCP for those who ask for it by
name; or over a local socket whose bytes somebody else carries, as a WebSocket's relay does.

One place that knows how the engine is called to listen, to dial and to set a session up; the operations on
shares are called by `two_party.program.run`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacita import compiled
from tacita.errors import InputError, PeerError
from tacita.plans import engine

if TYPE_CHECKING:
    from tacita._native import TableClient, TableServer, TwoParty, TwoPartyArrival

TIMEOUT = 600.0  # seconds of silence after which a peer is given up
CORRELATIONS = "ferret"


@dataclass(frozen=True)
class Identity:
    """PEM files of one's own certificate and its private key."""

    certificate: Path
    key: Path


class Party:
    """One end of a session. native: the engine's `TwoParty`."""

    def __init__(self, native: TwoParty) -> None:
        self.native = native

    def send(self, data: bytes) -> None:
        """Sends one message."""
        self.native.send(data)

    def receive(self, count: int) -> bytes:
        """Receives the next message, of exactly `count` bytes."""
        return self.native.receive(count)

    def set_up(self, correlations: str = CORRELATIONS) -> None:
        """Exchanges keys and correlations, once a session, at both parties."""
        self.native.setup(correlations)

    def limit(self, seconds: float) -> None:
        """Bounds all further waits for the peer by so many seconds in all, after which they raise
        LateError."""
        self.native.limit(seconds)

    def hold(self, count: int) -> None:
        """Bounds the bytes that may wait for the peer to read them; a send beyond waits."""
        self.native.capacity(count)

    @property
    def peer(self) -> str | None:
        """SHA-256 of the certificate that the peer showed, 64 hex digits; None where it showed none, and
        always over a local socket, whose TLS is outside."""
        return self.native.peer

    def close(self) -> None:
        """Writes what is queued and hangs up; a peer that is gone already is no error."""
        try:
            self.native.close()
        except compiled.native.TacitaError:
            return

    @property
    def cost(self) -> dict[str, float]:
        """Bytes, rounds and messages so far."""
        names = ("bytes_sent", "bytes_received", "rounds")
        return {name: getattr(self.native, name) for name in names}

    def profile(self) -> list[dict[str, Any]]:
        """Returns what each operation cost, by path, in the engine's words."""
        return self.native.profile()


def dial(
    host: str,
    port: int,
    *,
    trust: Path | None = None,
    fingerprint: str | None = None,
    name: str | None = None,
    identity: Identity | None = None,
    insecure_plain: bool = False,
    timeout: float = TIMEOUT,
    threads: int = 0,
) -> Party:
    """Connects as the client. threads: 0 for all cores. Raises PeerError, InputError.

    trust: PEM file of the server's certificate or of who signed it; the certificate must be for `name`, by
    default `host`. fingerprint: SHA-256 in hex of the one certificate to take, whatever its names and dates.
    Exactly one of the two, or insecure_plain.
    """
    if sum((trust is not None, fingerprint is not None, insecure_plain)) != 1:
        raise InputError(
            "connect: say which certificate to trust, or that the connection may be plain",
            hint="--trust CERTIFICATE.pem, [network] fingerprint, or insecure_plain_tcp on a machine of "
            "your own",
        )
    if name is not None and trust is None:
        raise InputError(
            "connect: a name is for --trust: nothing else looks at names", hint="leave --name out"
        )
    certificate, key = _files(identity)
    with engine.translated(PeerError, f"{host}:{port}"):
        native = compiled.native.TwoParty.dial(
            host,
            port,
            ca=str(trust) if trust else None,
            fingerprint=fingerprint,
            server_name=name,
            insecure_plain=insecure_plain,
            timeout=timeout,
            threads=threads,
            certificate=certificate,
            key=key,
        )
    return Party(native)


def over_socket(
    sock: socket.socket, *, client: bool, timeout: float = TIMEOUT, threads: int | None = 0
) -> Party:
    """Makes a party over a connected Unix stream socket, which it takes over: `sock` is closed for the
    caller.

    Nothing is encrypted and nobody is authenticated here: whoever carries the bytes of the other end does
    both. timeout: longest silence of the peer, seconds. threads: 0 for all cores, None for those that the
    sessions of this process share (see `share_threads`). Raises PeerError for a socket of another kind.
    """
    with sock, engine.translated(PeerError, "local socket"):
        native = compiled.native.TwoParty.over_socket(
            sock.fileno(), client=client, timeout=timeout, threads=threads
        )
    return Party(native)


def encrypt_table(values: NDArray[np.int64], ring: int) -> TableServer:
    """Makes the engine's server half of a hidden table (rows, columns) of integers below 2^(ring-2):
    `message()` is what clients get."""
    with engine.translated(PeerError, "embedding table"):
        return compiled.native.TableServer(np.ascontiguousarray(values), ring)


def receive_table(message: bytes, shape: tuple[int, int], ring: int) -> TableClient:
    """Makes the client half from the server's message. Raises PeerError for one that is not of this shape."""
    with engine.translated(PeerError, "embedding table"):
        return compiled.native.TableClient(message, *shape, ring)


class Arrival:
    """A connection that nothing was said on yet."""

    def __init__(self, native: TwoPartyArrival) -> None:
        self._native = native

    def secure(self, within: float, timeout: float) -> Party:
        """Makes the TLS handshake, for a thread of the session's own. Sessions compute on threads that they
        share.

        within: seconds since the connection came, for this and all that follows until `Party.limit`. timeout:
        longest silence of the peer at any time. Raises PeerError.
        """
        with engine.translated(PeerError, "not let in"):
            return Party(self._native.secure(within=within, timeout=timeout))

    def close(self) -> None:
        """Hangs up at once, whatever other threads do with it."""
        self._native.close()


def share_threads(count: int) -> int:
    """Sets how many threads the sessions of this process compute on, 0 for all cores; returns how many there
    are.

    Must be called before anything is computed.
    """
    return compiled.native.share_threads(count)


class Listener:
    """Waits for clients."""

    def __init__(
        self, host: str, port: int, *, identity: Identity | None = None, insecure_plain: bool = False
    ) -> None:
        certificate, key = _files(identity)
        with engine.translated(PeerError, f"{host}:{port}"):
            self._native = compiled.native.TwoPartyListener(
                host, port, certificate=certificate, key=key, insecure_plain=insecure_plain
            )

    @property
    def port(self) -> int:
        """Where it listens: the real port where 0 was asked for."""
        return self._native.port

    def next(self, wait: float) -> Arrival | None:
        """Returns the next connection, or None when nobody came for `wait` seconds. Nothing is read or
        written yet.

        Raises PeerError when the system cannot open another, for want of file descriptors for one; the next
        call may work.
        """
        with engine.translated(PeerError, "listen"):
            native = self._native.next(wait)
        return None if native is None else Arrival(native)


def new_identity(folder: Path, names: list[str]) -> Identity:
    """Writes a self-signed certificate.pem and key.pem for these host names. Raises PeerError when one is
    there already."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise PeerError(f"{folder}: cannot be made ({error})", hint="choose another folder") from error
    with engine.translated(PeerError, str(folder)):
        certificate, key = compiled.native.generate_certificate(str(folder), names)
    return Identity(Path(certificate), Path(key))


def fingerprint(certificate: Path) -> str:
    """Returns the SHA-256 of a certificate, 64 hex digits."""
    with engine.translated(PeerError, str(certificate)):
        return compiled.native.certificate_fingerprint(str(certificate))


def certificate_problem(certificate: Path, name: str) -> str:
    """Returns why clients that trust this self-signed certificate would refuse a server of that name today;
    empty when they would not.

    Raises PeerError for a file that is no certificate, or a text that is no name.
    """
    with engine.translated(PeerError, str(certificate)):
        return compiled.native.certificate_problem(str(certificate), name) or ""


@contextmanager
def pair(timeout: float = 120.0) -> Iterator[tuple[Party, Party]]:
    """Yields (client, server) in this process, for two threads."""
    client, server = (Party(native) for native in compiled.native.two_party_pair(timeout=timeout, threads=1))
    try:
        yield client, server
    finally:
        client.close()
        server.close()


def _files(identity: Identity | None) -> tuple[str, str] | tuple[None, None]:
    return (None, None) if identity is None else (str(identity.certificate), str(identity.key))
