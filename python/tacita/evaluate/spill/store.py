"""A folder of spilled ciphertexts: each in a file of its own, whole or absent, checked when it is read.

Layout, little endian:  magic (10) | version u16 | payload length u64 | sha256 of the payload (32) | payload.
The folder is private (0700), belongs to one process at a time, and holds ciphertexts and the manifest of a
resume point: nothing in it is secret, but nobody else has a reason to look. What others put there stays (see
`folder`). Files are not forced to the platter: they survive a killed process, and what a power cut leaves of
them fails its checksum.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import secrets
import struct
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from tacita.errors import FileError, ResourceError
from tacita.evaluate.spill.folder import OwnFolder
from tacita.plans.json_fields import canonical, from_json, to_json

MAGIC = b"TACITA-SP\0"
VERSION = 1
HEADER = struct.Struct("<10sHQ32s")
SUFFIX = ".spill"
MANIFEST = "resume.json"
OWNED = re.compile(r"[0-9a-f]{16}\.spill|resume\.json")
SPARE = 32 << 20  # bytes of the disk that spills leave free: for the response, and for others
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
    """Owns what it wrote in `folder` until `close`. on_disk, peak, bytes_written, bytes_read count headers
    too. Several threads may write and load.

    Raises ResourceError when another process has the folder, FileError when it cannot be made or is not ours.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.on_disk = self.peak = self.bytes_written = self.bytes_read = 0
        self._held: Set[str] = frozenset()
        self._unwanted: dict[str, SpillFile] = {}
        self._writing = Lock()  # of the folder's list, and of what is counted
        self._own: OwnFolder | None = OwnFolder(folder, OWNED)

    def write(self, payload: bytes) -> SpillFile:
        """A new file. Raises ResourceError (needed and free bytes) when the disk is full; the store is as
        before."""
        digest = hashlib.sha256(payload).digest()
        file = SpillFile(secrets.token_hex(8) + SUFFIX, len(payload), digest.hex())
        with self._writing:
            if (free := self._folder.free() - SPARE) < file.size:
                raise self._full(file.size, max(0, free))
            try:
                self._folder.write(file.name, HEADER.pack(MAGIC, VERSION, file.length, digest), payload)
            except FileError as error:
                if isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL:
                    raise self._full(file.size, self._folder.free()) from error
                raise
            self._count(file)
            self.bytes_written += file.size
        return file

    def load(self, file: SpillFile) -> bytes:
        """The payload. Raises FileError: absent, truncated, damaged, or not the file that was written."""
        path = self.folder / file.name
        try:
            head, payload = self._folder.read(
                file.name, min(file.size, HEADER.size + MAX_PAYLOAD), HEADER.size
            )
        except OSError as error:
            raise FileError(f"{path}: a spilled ciphertext cannot be read ({error})", hint=ANEW) from error
        if len(head) + len(payload) != file.size or file.length > MAX_PAYLOAD:
            raise FileError(f"{path}: {len(head) + len(payload)} bytes, {file.size} were spilled", hint=ANEW)
        if head != HEADER.pack(MAGIC, VERSION, file.length, bytes.fromhex(file.sha256)):
            raise FileError(f"{path}: not the file that was spilled under this name", hint=ANEW)
        if hashlib.sha256(payload).hexdigest() != file.sha256:
            raise FileError(f"{path}: checksum does not match, the spilled ciphertext is damaged", hint=ANEW)
        with self._writing:
            self.bytes_read += file.size
        return payload

    def write_manifest(self, text: str) -> None:
        """Replaces the manifest in one step. Raises FileError; then the one before is still there."""
        self._folder.write(MANIFEST, text.encode())

    def read_manifest(self, most: int) -> str | None:
        """The manifest, None when there is none. Raises OSError (a link, no rights), ValueError (longer, not
        UTF-8)."""
        try:
            _, data = self._folder.read(MANIFEST, most)
        except FileNotFoundError:
            return None
        if len(data) > most:
            raise ValueError(f"over {most} bytes")
        return data.decode("utf-8")

    def has_manifest(self) -> bool:
        """Whether one of ours is there."""
        return MANIFEST in self._folder.names()

    def unknown(self) -> list[str]:
        """Names in the folder that are not ours; they stay."""
        return self._folder.unknown()

    def adopt(self, files: Sequence[SpillFile]) -> None:
        """Takes over, and holds, what an earlier process left, once all of it has passed its checks; deletes
        the rest of ours but the manifest. Raises FileError; then nothing has changed."""
        for file in files:
            self.load(file)
        for file in files:
            self._count(file)
        self._held = {file.name for file in files}
        self.sweep({*self._held, MANIFEST})

    def remove(self, file: SpillFile) -> None:
        """Deletes a file, or has it deleted once it is held no more."""
        if self._own is None:  # a handle that outlived its store
            return
        if file.name in self._held:
            self._unwanted[file.name] = file
            return
        self._own.delete(file.name)
        self.on_disk -= file.size

    def hold(self, names: Set[str]) -> None:
        """Keeps these files from now on, removed or not, and no others."""
        self._held, released = names, [f for name, f in self._unwanted.items() if name not in names]
        for file in released:
            del self._unwanted[file.name]
            self.remove(file)

    def sweep(self, names: Set[str] = frozenset()) -> None:
        """Deletes what a killed process left of ours, but these."""
        for name in self._folder.names() - names:
            self._folder.delete(name)

    def close(self, *, keep: bool) -> None:
        """Gives the folder free; unless `keep`, removes what is ours, and the folder if nothing else is in
        it."""
        if self._own is None:
            return
        if keep and self._held:
            with suppress(OSError):
                self.sweep({*self._held, MANIFEST})
        self._own.release(keep=keep)
        self._own = None

    @property
    def _folder(self) -> OwnFolder:
        if self._own is None:
            raise FileError(
                f"{self.folder}: the store is closed", hint="keep it open while ciphertexts are used"
            )
        return self._own

    def _count(self, file: SpillFile) -> None:
        self.on_disk += file.size
        self.peak = max(self.peak, self.on_disk)

    def _full(self, need: int, free: int) -> ResourceError:
        return ResourceError(
            f"spilling a ciphertext needs {need} bytes in {self.folder}, {free} are free",
            hint="make room and run it again, with more --memory if there is; it continues from its resume "
            "point",
        )


# The manifest of a store: what its files are, with a format, a version and a checksum in front.
#
# A damaged one, one of another release and one that names what no store wrote are told apart from a whole one
# before anything is made of it.

SPILL_NAME = re.compile(r"[0-9a-f]{16}\.spill")
MALFORMED = (OSError, ValueError, KeyError, TypeError, RecursionError)  # what reading a damaged one raises
T = TypeVar("T")


def stated(form: str, version: int, content: Any) -> str:
    """The text of a manifest. content: a frozen dataclass."""
    body = to_json(content)
    head = {"format": form, "version": version, "sha256": hashlib.sha256(canonical(body)).hexdigest()}
    return json.dumps({**head, **body})


def parsed(text: str, form: str, version: int, kind: type[T]) -> T:
    """The content, whose `files` are those of a store. Raises one of `MALFORMED` for a text that `stated`
    would not have written, or that names a file as no store does."""
    data = json.loads(text)
    if not isinstance(data, dict) or data.pop("format", None) != form:
        raise ValueError("another format")
    if (stored_version := data.pop("version", None)) != version:
        raise ValueError(f"version {stored_version!s:.20}, this program reads {version}")
    if data.pop("sha256", None) != hashlib.sha256(canonical(data)).hexdigest():
        raise ValueError("its checksum does not match")
    content: Any = from_json(kind, data)
    if odd := [file.name for file in content.files if not SPILL_NAME.fullmatch(file.name)]:
        raise ValueError(f"names the file {odd[0]!r:.80}")
    whole: T = content
    return whole
