"""A two-party server of one's own: in a thread of this process, over TLS on the loopback, for as long as a
block lasts. `schemes.two_parties.TwoParties.private` asks one.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tacita.two_party.admission import SessionLimiter, SessionLimits
from tacita.two_party.protocol.party import Listener, Party, dial, fingerprint, new_identity, share_threads
from tacita.two_party.reception import Reception, accept_until
from tacita.two_party.server import TwoPartyServer

HOST = "127.0.0.1"
SILENCE = 600.0  # seconds after which either side gives the other up


@dataclass(frozen=True)
class Address:
    """Where it listens; fingerprint: SHA-256 of the one certificate to trust, made for this block."""

    port: int
    fingerprint: str
    host: str = HOST


@contextmanager
def listening(server: TwoPartyServer, threads: int = 0, sessions: int = 1) -> Iterator[Address]:
    """Accepts clients of this machine until the block ends. threads: 0 for all cores.
    sessions: at the same time."""
    share_threads(threads)
    with tempfile.TemporaryDirectory(prefix="tacita-server-") as folder:
        identity = new_identity(Path(folder) / "identity", [HOST])
        listener, over = Listener(HOST, 0, identity=identity), threading.Event()
        reception = Reception(server, SessionLimiter(SessionLimits(sessions)), SILENCE, lambda visit: None)
        arguments = (over.is_set, listener, reception.receive, lambda error: None)
        accepting = threading.Thread(target=accept_until, args=arguments, daemon=True)
        accepting.start()
        try:
            yield Address(listener.port, fingerprint(identity.certificate))
        finally:
            over.set()
            accepting.join()


@contextmanager
def dialled(address: Address, threads: int = 0) -> Iterator[Party]:
    """A connection as the client, hung up at the block's end."""
    trust = address.fingerprint
    party = dial(address.host, address.port, fingerprint=trust, timeout=SILENCE, threads=threads)
    try:
        yield party
    finally:
        party.close()
