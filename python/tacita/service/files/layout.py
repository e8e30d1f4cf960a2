"""Paths below the data folder. Every part of a path is of our own making or hex of a fixed length, checked
where it came in, so that no client names a path.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tacita.errors import InputError, ResourceError

HEX = re.compile(r"[0-9a-f]{32}")
SPARE = 512 << 20  # bytes of the disk that uploads leave free: for the ledger, for spills and responses
KEYS, REQUESTS = "keys", "requests"


@dataclass(frozen=True)
class Layout:
    """root: the data folder."""

    root: Path

    @property
    def free(self) -> int:
        """Bytes of the disk that are free."""
        return shutil.disk_usage(self.root).free

    def keys(self, client: str, id: str) -> Path:
        """The folder of a client's keys of this id."""
        return self.root / KEYS / _hex(client) / _hex(id)

    def request(self, id: str) -> Path:
        """The work folder of a request: request.ct, response.ct, resume points."""
        return self.root / REQUESTS / _hex(id)

    def drop_keys(self, client: str, id: str) -> None:
        """Removes them, if they are there, and the client's folder with the last of them."""
        folder = self.keys(client, id)
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.parent.rmdir()

    def drop_request(self, id: str) -> None:
        """Removes its folder, if it is there."""
        shutil.rmtree(self.request(id), ignore_errors=True)

    def sweep(self, keys: set[tuple[str, str]], requests: set[str]) -> int:
        """Removes every folder that the ledger does not know: left by a server that was killed between
        making one and writing it down. Returns how many."""
        strays = [path for path in _folders(self.root / REQUESTS) if path.name not in requests]
        for client in _folders(self.root / KEYS):
            strays += [path for path in _folders(client) if (client.name, path.name) not in keys]
        for path in strays:
            shutil.rmtree(path, ignore_errors=True)
        return len(strays)

    def has_room(self, count: int) -> bool:
        """Whether the disk has room for so many bytes, and some to spare."""
        return self.free >= count + SPARE

    def require_room(self, count: int) -> None:
        """Raises ResourceError unless it `has_room`."""
        if not self.has_room(count):
            raise ResourceError(
                f"the server's disk has no room for {count} bytes", hint="try later, or tell its operator"
            )


def part(folder: Path) -> Path:
    """Keys that have not come whole."""
    return folder / "evaluation.keys.part"


def whole(folder: Path) -> Path:
    """Keys that have."""
    return folder / "evaluation.keys"


def _hex(name: str) -> str:
    if not HEX.fullmatch(name):
        raise InputError(f"{name!r:.80} is no id", hint="32 hexadecimal digits")
    return name


def _folders(path: Path) -> list[Path]:
    return [each for each in path.iterdir() if each.is_dir()] if path.is_dir() else []
