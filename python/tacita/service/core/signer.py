"""The server's signing key: made once, mode 0600, in its data folder."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tacita.errors import FileError
from tacita.protocol.files import replacing

NAME = "signing.key"


def signing_key(folder: Path) -> Ed25519PrivateKey:
    """The key of this data folder. Raises FileError for a file that is none, or that others may read."""
    path = folder / NAME
    if not path.exists():
        _make(path)
    if path.stat().st_mode & 0o077:
        raise FileError(f"{path}: others may read it", hint=f"chmod 600 {path}")
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, OSError):
        raise FileError(f"{path}: no signing key", hint="restore it, or move it away for a new one") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise FileError(f"{path}: a key of another kind", hint="restore it, or move it away for a new one")
    return key


def _make(path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with replacing(path, mode=0o600) as temporary:
        temporary.write_bytes(data)
