"""How a service runs, in numbers that an operator may change."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tacita.errors import FileError
from tacita.evaluate.session import MEMORY_GB
from tacita.plans.files import replacing
from tacita.resources import CPU
from tacita.server.sessions.messages import SILENCE
from tacita.server.store.tables import Quota
from tacita.two_party.server import BITS_PER_SECOND

HOUR = 3600.0
DAY = 24 * HOUR
SILENT = 600.0  # seconds without a request after which the rows of a text go


@dataclass(frozen=True)
class Settings:
    """How a service runs. data: the folder of everything that the server keeps, for it alone. anybody:
    the quota of each caller without a token; None: there are none. documents: an index that two parties
    search. memory: GB of each worker; device: what it evaluates on. waiting: requests that a scheme's queue
    holds. sessions: of two parties at the same time; prepared, silence, bits_per_second: see `SessionSpec`.
    drain: seconds that running requests get to end after SIGTERM. kept: seconds that an answer waits.
    keep_keys: seconds that keys stay without being used. silent: seconds without a request after which the
    rows of a text go. most_keys: bytes of all keys; None: what the disk has. patience: seconds of silence in
    a body; least_rate: bytes a second that it must come with. streams: of events that a client may hold.
    address_per_minute: calls without a valid token that one address may make. proxies: addresses whose
    X-Forwarded-For is believed. origins: of pages that may call beside the server's own. hosts: names that
    callers may use for it, None for any. lasting: whether browsers may be told to insist on TLS. traces: URL
    of a collector of spans."""

    data: Path
    anybody: Quota | None = None
    documents: Path | None = None
    threads: int = 0
    memory: float = MEMORY_GB
    device: str = CPU
    allow_insecure: bool = False
    waiting: int = 64
    sessions: int = 4
    prepared: int = 4
    silence: float = SILENCE
    bits_per_second: float = BITS_PER_SECOND
    drain: float = 20.0
    kept: float = DAY
    keep_keys: float = 30 * DAY
    silent: float = SILENT
    most_keys: int | None = None
    patience: float = 20.0
    least_rate: float = 32e3
    streams: int = 64
    address_per_minute: int = 3000
    proxies: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    hosts: frozenset[str] | None = None
    lasting: bool = False
    traces: str | None = None
    clock: Callable[[], float] = field(default_factory=lambda: steady())


def steady() -> Callable[[], float]:
    """Returns a clock of Unix seconds that go on evenly: the system's time now, and what has passed since by
    a clock that nobody sets. A jump of the system's clock moves no deadline and no quota.

    >>> clock = steady()
    >>> abs(clock() - time.time()) < 1
    True
    """
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


# The server's signing key: made once, mode 0600, in its data folder.

NAME = "signing.key"


def signing_key(folder: Path) -> Ed25519PrivateKey:
    """Returns the key of this data folder, made where there is none. Raises FileError for a file that is
    none, or that others may read."""
    path = folder / NAME
    if not path.exists():
        new = Ed25519PrivateKey.generate()
        data = new.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        with replacing(path, mode=0o600) as temporary:
            temporary.write_bytes(data)
    if path.stat().st_mode & 0o077:
        raise FileError(f"{path}: others may read it", hint=f"chmod 600 {path}")
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, OSError):
        raise FileError(f"{path}: no signing key", hint="restore it, or move it away for a new one") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise FileError(f"{path}: a key of another kind", hint="restore it, or move it away for a new one")
    return key
