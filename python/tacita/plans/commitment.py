"""A commitment to the weights: what a plan says of them to everybody, and the salt by which its server opens
it.

A plain hash of the weights would tell whoever holds a candidate whether it is this model. Salted, it tells
that to nobody who has not the salt, and binds the server nevertheless: it cannot find other weights that open
the same commitment.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path

from tacita.errors import FileError

SALT_FILE = "weights.salt"  # beside the server's plan, mode 0600; never in a public folder
SALT_BYTES = 32
SALT = re.compile(rf"[0-9a-f]{{{2 * SALT_BYTES}}}")


def draw() -> str:
    """A fresh salt, hex, of the operating system's random generator."""
    return secrets.token_hex(SALT_BYTES)


def commit(salt: str, sha256: str) -> str:
    """sha256(salt || sha256), hex. Both are hex; sha256 is of weights and configuration."""
    return hashlib.sha256(bytes.fromhex(salt) + bytes.fromhex(sha256)).hexdigest()


def salt_beside(plan: Path) -> str:
    """The salt in the plan's folder; empty where there is none, as at a client. Raises FileError for another
    file there."""
    path = plan.with_name(SALT_FILE)
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            found = file.read(2 * SALT_BYTES + 2).decode("ascii", "replace").strip()
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error})", hint="is it the server's own file?") from error
    if not SALT.fullmatch(found):
        raise FileError(f"{path}: not the salt of a plan", hint="make plan and salt again with `tacita plan`")
    return found
