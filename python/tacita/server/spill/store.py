"""A folder of spilled ciphertexts: each in a file of its own, whole or absent, checked when it is read.

Layout, little endian:  magic (10) | version u16 | payload length u64 | sha256 of the payload (32) | payload.
The folder is private (0700), belongs to one process at a time, and holds ciphertexts only: nothing in it is secret, but
nobody else has a reason to look. Files are not forced to the platter: they survive a killed process, and what a power
cut leaves of them fails its checksum.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import struct
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from tacita.errors import FileError, ResourceError
from tacita.protocol.files import replacing

MAGIC = b"TACITA-SP\0"
VERSION = 1
HEADER = struct.Struct("<10sHQ32s")
SUFFIX = ".spill"
MAX_PAYLOAD = 1 << 30  # a ciphertext at N = 2^16 with 40 limbs packs to 33 MB
FULL = (errno.ENOSPC, errno.EDQUOT)
ANEW = "run `tacita evaluate` again; --no-resume starts from the beginning"


@dataclass(frozen=True)
class SpillFile:
    """A file of the store: its name in the folder, bytes of the payload and their sha256 (hex)."""

    name: str
    length: int
    sha256: str

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return HEADER.size + self.length


class SpillStore:
    """Owns `folder` until `close`. on_disk, peak, bytes_written, bytes_read count headers too.

    quota: bytes that the store may fill (None: what the disk has). Raises ResourceError when another process has the
    folder, FileError when it cannot be made.
    """

    def __init__(self, folder: Path, *, quota: int | None = None) -> None:
        self.folder, self.quota = folder, quota
        self.on_disk = self.peak = self.bytes_written = self.bytes_read = 0
        self._held: Set[str] = frozenset()
        self._unwanted: dict[str, SpillFile] = {}
        self._lock = _claim(folder)

    def write(self, payload: bytes) -> SpillFile:
        """A new file. Raises ResourceError (needed and free bytes) when the disk is full; the store is as before."""
        digest = hashlib.sha256(payload).digest()
        file = SpillFile(secrets.token_hex(8) + SUFFIX, len(payload), digest.hex())
        if self.quota is not None and self.on_disk + file.size > self.quota:
            raise self._full(file.size, self.quota - self.on_disk)
        try:
            with replacing(self.folder / file.name, mode=0o600) as temporary, temporary.open("wb") as out:
                out.write(HEADER.pack(MAGIC, VERSION, file.length, digest))
                out.write(payload)
        except FileError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL:
                raise self._full(file.size, shutil.disk_usage(self.folder).free) from error
            raise
        self._count(file)
        self.bytes_written += file.size
        return file

    def load(self, file: SpillFile) -> bytes:
        """The payload. Raises FileError: absent, truncated, damaged, or not the file that was written."""
        path = self.folder / file.name
        try:
            if (size := path.stat().st_size) != file.size or file.length > MAX_PAYLOAD:
                raise FileError(f"{path}: {size} bytes, {file.size} were spilled", hint=ANEW)
            with path.open("rb") as source:
                header, payload = source.read(HEADER.size), source.read()
        except OSError as error:
            raise FileError(f"{path}: a spilled ciphertext cannot be read ({error})", hint=ANEW) from error
        if header != HEADER.pack(MAGIC, VERSION, file.length, bytes.fromhex(file.sha256)):
            raise FileError(f"{path}: not the file that was spilled under this name", hint=ANEW)
        if hashlib.sha256(payload).hexdigest() != file.sha256:
            raise FileError(f"{path}: checksum does not match, the spilled ciphertext is damaged", hint=ANEW)
        self.bytes_read += size
        return payload

    def adopt(self, files: Sequence[SpillFile], beside: str) -> None:
        """Takes over, and holds, what an earlier process left, once all of it has passed its checks; deletes the rest.

        beside: an entry of the folder that stays as well. Raises FileError; then nothing has changed.
        """
        for file in files:
            self.load(file)
        for file in files:
            self._count(file)
        self._held = {file.name for file in files}
        self.sweep({*self._held, beside})

    def remove(self, file: SpillFile) -> None:
        """Deletes a file, or has it deleted once it is held no more."""
        if file.name in self._held:
            self._unwanted[file.name] = file
            return
        (self.folder / file.name).unlink(missing_ok=True)
        self.on_disk -= file.size

    def hold(self, names: Set[str]) -> None:
        """Keeps these files from now on, removed or not, and no others."""
        self._held, released = names, [f for name, f in self._unwanted.items() if name not in names]
        for file in released:
            del self._unwanted[file.name]
            self.remove(file)

    def sweep(self, names: Set[str] = frozenset()) -> None:
        """Deletes everything in the folder but these entries: what a killed process left."""
        for path in self.folder.iterdir():
            if path.name not in names:
                path.unlink()

    def close(self, *, keep: bool) -> None:
        """Gives the folder free; removes it with all it holds unless `keep`."""
        if self._lock < 0:
            return
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1

    def _count(self, file: SpillFile) -> None:
        self.on_disk += file.size
        self.peak = max(self.peak, self.on_disk)

    def _full(self, need: int, free: int) -> ResourceError:
        return ResourceError(
            f"spilling a ciphertext needs {need} bytes in {self.folder}, {free} are free",
            hint="make room and run it again, with more --memory if there is; it continues from its resume point",
        )


def _claim(folder: Path) -> int:
    """A descriptor of the private folder, locked for this process."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise FileError(f"{folder}: the folder cannot be made ({error})", hint="choose another --work") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ResourceError(f"{folder}: in use by another evaluate", hint="wait for it or end it") from error
    return descriptor
