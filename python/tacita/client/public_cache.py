"""Caches public parts of models by their sha256: `$XDG_CACHE_HOME/tacita/public`, by default under ~/.cache.

They can be deleted at any time. A file that does not match its name is not used, and is fetched again.
"""

from __future__ import annotations

import os
from pathlib import Path

from tacita.errors import FileError
from tacita.plans.files import replacing
from tacita.two_party.protocol.public_part import MAX_BYTES, digest


def default_folder(name: str = "public") -> Path:
    """Returns the folder of cached parts (or other things of this name), by the XDG base directory rules."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "tacita" / name


class PublicCache:
    """A folder of files named by hash. A failed write is no error: the part is fetched again next time."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or default_folder()

    def get(self, name: bytes) -> bytes | None:
        """Returns the part of this sha256, or None."""
        path = self._path(name)
        try:
            if path.stat().st_size > MAX_BYTES:
                return None
            data = path.read_bytes()
        except OSError:
            return None
        return data if digest(data) == name else None

    def put(self, name: bytes, data: bytes) -> None:
        """Keeps the part if the folder can be written."""
        try:
            with replacing(self._path(name)) as temporary:
                temporary.write_bytes(data)
        except FileError:
            return

    def _path(self, name: bytes) -> Path:
        return self._folder / f"{name.hex()}.part"
