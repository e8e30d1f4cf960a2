"""The head of a file of evaluation keys, which a server checks before it keeps one. The engine reads the
rest.

Layout, little endian (crates/wire): "TACITA" | kind u8 | version u32 | hash of the parameters (32) |
key id (16) | number of keys u64 | check (16).
"""

from __future__ import annotations

import struct
from pathlib import Path

from tacita.errors import FileError

HEAD = struct.Struct("<6sBI32s16sQ16s")
BEGIN = (b"TACITA", 1, 1)  # evaluation keys of version 1


def owner_of(head: bytes) -> str:
    """The key id in the first bytes of a file. Raises FileError for another file than evaluation keys."""
    if len(head) < HEAD.size or (found := HEAD.unpack(head[: HEAD.size]))[:3] != BEGIN:
        raise FileError("evaluation.keys: not a file of evaluation keys", hint="as `tacita keygen` makes it")
    return str(found[4].hex())


def require_keys_of(path: Path, key_id: str) -> None:
    """Raises FileError unless the file begins as evaluation keys of this id do."""
    with path.open("rb") as file:
        owner = owner_of(file.read(HEAD.size))
    if owner != key_id:
        raise FileError(
            f"evaluation.keys: of key {owner[:12]}, sent as {key_id[:12]}",
            hint="send them under their own id",
        )
