"""Writing files so that an interrupted run leaves either the old file or the new one, never half of one."""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tacita.errors import FileError
from tacita.plans.commitment import SALT_FILE


class _File:
    """A path in a folder, by the file's name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: Workdir, kind: type[Workdir]) -> Path:
        return owner.path / self._name


@dataclass(frozen=True)
class Workdir:
    """The one folder of a party's files. The server's copy never holds `secret_key`, the client's never
    `salt`. key_use: how many answers the secret key has decrypted."""

    path: Path

    plan = _File("plan.json")
    salt = _File(SALT_FILE)
    evaluation_keys = _File("evaluation.keys")
    request = _File("request.ct")
    response = _File("response.ct")

    @property
    def secret_key(self) -> Path:
        return self.path / "secret.key"

    @property
    def key_use(self) -> Path:
        return self.secret_key.with_name("secret.key.use")


@contextmanager
def replacing(path: Path, *, mode: int = 0o644) -> Iterator[Path]:
    """A temporary path beside `path`; renamed over it on success, removed on any exception, Ctrl-C
    included. Raises FileError, for a folder before anything is written."""
    if os.path.isdir(path):
        raise FileError(f"{path}: cannot be written (it is a folder)", hint="name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{path}: the folder cannot be made ({error})", hint="choose another --work"
        ) from error
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield temporary
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError as error:
        raise FileError(
            f"{path}: cannot be written ({error})", hint="check the folder's space and rights"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replaces `path` by `text` in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file's content, hex, in a second or two for gigabytes. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a request, hex. Raises FileError."""
    try:
        return sha256_of(path)
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error})", hint="is it the request file?") from error


def require(path: Path, made_by: str) -> Path:
    """The path, if it is a file; otherwise an error that names the command that makes it."""
    if not path.is_file():
        raise FileError(f"{path}: no such file", hint=f"make it with `tacita {made_by}`")
    return path


# The head of a file of evaluation keys, which a server checks before it keeps one. The engine reads the
# rest.
#
# Layout, little endian (crates/wire): "TACITA" | kind u8 | version u32 | hash of the parameters (32) |
# key id (16) | number of keys u64 | check (16).

HEAD = struct.Struct("<6sBI32s16sQ16s")
BEGINS = [(b"TACITA", 1, version) for version in (1, 2)]  # evaluation keys; 2: of rings that bootstrap


def owner_of(head: bytes) -> str:
    """The key id in the first bytes of a file. Raises FileError for another file than evaluation keys."""
    if len(head) < HEAD.size or (fields := HEAD.unpack(head[: HEAD.size]))[:3] not in BEGINS:
        raise FileError("evaluation.keys: not a file of evaluation keys", hint="as `tacita keygen` makes it")
    return str(fields[4].hex())


def require_keys_of(path: Path, key_id: str) -> None:
    """Raises FileError unless the file begins as evaluation keys of this id do."""
    with path.open("rb") as file:
        owner = owner_of(file.read(HEAD.size))
    if owner != key_id:
        raise FileError(
            f"evaluation.keys: of key {owner[:12]}, sent as {key_id[:12]}",
            hint="send them under their own id",
        )
