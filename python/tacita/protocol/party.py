"""A party's end of a connection, made by the native engine: TLS 1.3, or plain TCP for those who ask for it by name.

One place that knows how the engine is called to listen, to dial and to set a session up; the operations on shares are called by
`backends.two_party.shares`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.errors import InputError, PeerError
from tacita.protocol import engine

TIMEOUT = 600.0  # seconds of silence after which a peer is given up
CORRELATIONS = "ferret"


@dataclass(frozen=True)
class Identity:
    """PEM files of one's own certificate and its private key."""

    certificate: Path
    key: Path


class Party:
    """One session. native: the engine's `TwoParty`."""

    def __init__(self, native: Any) -> None:
        self.native = native

    def send(self, data: bytes) -> None:
        """Sends one message."""
        self.native.send(data)

    def receive(self, count: int) -> bytes:
        """The next message, of exactly `count` bytes."""
        return bytes(self.native.receive(count))

    def set_up(self, correlations: str = CORRELATIONS) -> None:
        """Keys and correlations, once a session, at both parties."""
        self.native.setup(correlations)

    def close(self) -> None:
        """Writes what is queued and hangs up; a peer that is gone already is no error."""
        try:
            self.native.close()
        except engine.native().TacitaError:
            return

    @property
    def cost(self) -> dict[str, float]:
        """Bytes, rounds and messages so far."""
        names = ("bytes_sent", "bytes_received", "rounds")
        return {name: getattr(self.native, name) for name in names}

    def profile(self) -> list[dict[str, Any]]:
        """What each operation cost, by path, in the engine's words."""
        return list(self.native.profile())


def dial(
    host: str,
    port: int,
    *,
    trust: Path | None = None,
    identity: Identity | None = None,
    insecure_plain: bool = False,
    timeout: float = TIMEOUT,
    threads: int = 0,
) -> Party:
    """Connects as the client. trust: PEM file of the server's certificate or of who signed it. threads: 0 for all cores.

    Raises PeerError, InputError.
    """
    if (trust is None) != insecure_plain:
        raise InputError(
            "connect: say which certificate to trust, or that the connection may be plain",
            hint="--trust CERTIFICATE.pem, or --insecure-plain-tcp on a machine of your own",
        )
    files = _files(identity)
    with engine.translated(PeerError, f"{host}:{port}"):
        native = engine.native().TwoParty.dial(
            host,
            port,
            ca=str(trust) if trust else None,
            insecure_plain=insecure_plain,
            timeout=timeout,
            threads=threads,
            **files,
        )
    return Party(native)


def encrypt_table(values: NDArray[np.int64], ring: int) -> Any:
    """The engine's server half of a hidden table (rows, columns) of integers below 2^(ring-2): `message()` is what clients get."""
    with engine.translated(PeerError, "embedding table"):
        return engine.native().TableServer(np.ascontiguousarray(values), ring)


def received_table(message: bytes, shape: tuple[int, int], ring: int) -> Any:
    """The client half, from the server's message. Raises PeerError for one that is not of this shape."""
    with engine.translated(PeerError, "embedding table"):
        return engine.native().TableClient(message, *shape, ring)


class Listener:
    """Waits for clients. port: the real one where 0 was asked for. client_ca: who must have signed a client's certificate."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        identity: Identity | None = None,
        client_ca: Path | None = None,
        insecure_plain: bool = False,
    ) -> None:
        ca = str(client_ca) if client_ca else None
        with engine.translated(PeerError, f"{host}:{port}"):
            self._native = engine.native().TwoPartyListener(
                host, port, client_ca=ca, insecure_plain=insecure_plain, **_files(identity)
            )

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._native.port)

    def accept(self, wait: float, timeout: float = TIMEOUT, threads: int = 0) -> Party | None:
        """The next client, or None when nobody came for `wait` seconds. Raises PeerError for one that was not let in."""
        with engine.translated(PeerError, "a client was not let in"):
            native = self._native.accept(wait, timeout=timeout, threads=threads)
        return None if native is None else Party(native)


def new_identity(folder: Path, names: list[str]) -> Identity:
    """Writes a self-signed certificate.pem and key.pem for these host names. Raises PeerError when one is there already."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise PeerError(f"{folder}: cannot be made ({error})", hint="choose another folder") from error
    with engine.translated(PeerError, str(folder)):
        certificate, key = engine.native().generate_certificate(str(folder), names)
    return Identity(Path(certificate), Path(key))


def fingerprint(certificate: Path) -> str:
    """SHA-256 of a certificate, 64 hex digits."""
    with engine.translated(PeerError, str(certificate)):
        return str(engine.native().certificate_fingerprint(str(certificate)))


@contextmanager
def pair(timeout: float = 120.0) -> Iterator[tuple[Party, Party]]:
    """(client, server) in this process, for two threads."""
    client, server = (Party(native) for native in engine.native().two_party_pair(timeout=timeout, threads=1))
    try:
        yield client, server
    finally:
        client.close()
        server.close()


def _files(identity: Identity | None) -> dict[str, str]:
    return {} if identity is None else {"certificate": str(identity.certificate), "key": str(identity.key)}
