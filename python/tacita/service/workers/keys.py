"""Which file the keys in memory were read from: a key's id is chosen by who made it, so that two clients can
bring one id, and the ring knows ids alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path

from tacita.errors import FileError
from tacita.server.standing.keyring import KeyRing


@dataclass(frozen=True)
class Source:
    """A file as it was when it was read."""

    path: Path
    device: int
    inode: int
    changed: int
    size: int


class Keys:
    """The keys of a ring, each from the file that was read last under its id. source: what tells one file
    from another. read: called with a file once its keys are in memory."""

    def __init__(
        self,
        ring: KeyRing,
        source: Callable[[Path], Hashable] | None = None,
        read: Callable[[Path], None] = lambda _: None,
    ) -> None:
        self._ring, self._source, self._read = ring, source or source_of, read
        self._sources = dict[str, Hashable]()

    def __len__(self) -> int:
        return len(self._ring)

    def provide(self, key_id: str, path: Path) -> bool:
        """Has the keys of this id, read from this file, in memory; whether they had to be read. Raises
        FileError for a file of other keys, and as `KeyRing.load`."""
        source = self._source(path)
        if self.holds(key_id, source):
            return False
        found = self._ring.load(path).key_id
        if found != key_id:
            self._forget(found)  # another's keys of that id may have been replaced
            raise FileError("evaluation.keys: they are not the keys of that id", hint="upload them again")
        self._sources[key_id] = source
        self._read(path)
        return True

    def holds(self, key_id: str, source: Hashable) -> bool:
        """Whether the keys of this id are in memory, and from there."""
        return self._ring.held(key_id) is not None and self._sources.get(key_id) == source

    def _forget(self, key_id: str) -> None:
        self._sources.pop(key_id, None)
        self._ring.forget(key_id)


def source_of(path: Path) -> Source:
    """Raises FileError where there is no such file."""
    try:
        found = path.stat()
    except OSError as error:
        raise FileError("evaluation.keys: they are not there", hint="upload them again") from error
    return Source(path, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
