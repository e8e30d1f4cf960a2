"""A copy of a server's data folder, made while the server runs, and the way back.

    SHA256SUMS    as `sha256sum --check` reads it: hash and path of every file below
    data/         the ledger at one moment, signing key, plans, keys, requests and answers that wait
    tls/          certificate and key, where they were given

The ledger comes first, by SQLite's own copy; then the files that its rows name, each checked against the hash
in its row. What a client removed meanwhile, and what had not come whole, is left out with its row. So the
copy is what the server would be after a power cut at that moment, without resume points.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import select

from tacita.errors import FileError, InputError
from tacita.plans.files import Workdir, sha256_of, write_text
from tacita.plans.wire import State
from tacita.progress import Progress
from tacita.resources import require_disk
from tacita.schemes.base import Report
from tacita.server.core.offers import FOLDER as OFFERS
from tacita.server.core.settings import NAME as SIGNING_KEY
from tacita.server.store import keys, requests
from tacita.server.store.bodies import KEYS, REQUESTS, Layout, whole
from tacita.server.store.ledger import NAME, Ledger, copy_to
from tacita.server.store.tables import RequestRow

SUMS, DATA, TLS = "SHA256SUMS", "data", "tls"
PIECE = 1 << 20  # bytes
LINE = re.compile(r"([0-9a-f]{64})  ((?:data|tls)(?:/(?!\.)[\w.\-]{1,120}){1,6})")
MOST_SUMS = 64 << 20  # bytes


@dataclass
class Copy:
    """Copies files below a folder. total: bytes to expect. sums: hash by path of what was copied. keys,
    requests: how many; left_out: rows whose file was gone, not whole or damaged."""

    root: Path
    report: Report
    total: int = 0
    sums: dict[str, str] = field(default_factory=dict)
    bytes: int = 0
    keys: int = 0
    requests: int = 0
    left_out: int = 0
    began: float = field(default_factory=time.monotonic)

    def file(self, source: Path, path: str) -> str:
        """Copies a file, mode 0600, onto the disk; returns its hash. Raises FileError."""
        target, digest = self.root / path, hashlib.sha256()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with source.open("rb") as file, open(target, "xb", opener=_private) as copy:
                while piece := file.read(PIECE):
                    digest.update(piece)
                    self.bytes += copy.write(piece)
                    self._report()
                copy.flush()
                os.fsync(copy.fileno())
        except OSError as error:
            why = f"{source}: cannot be copied ({error.strerror})"
            raise FileError(why, hint="rights, or the disk") from error
        self.sums[path] = digest.hexdigest()
        return self.sums[path]

    def tree(self, source: Path, path: str) -> None:
        """Copies all files below a folder, but those that are being written, whose names begin with a dot."""
        for each in sorted(source.rglob("[!.]*")):
            if each.is_file():
                self.file(each, f"{path}/{each.relative_to(source).as_posix()}")

    def row(self, source: Path, path: str, sha256: str | None) -> bool:
        """Copies the file of a row. Returns whether it was there with this hash; nothing stays if not."""
        with suppress(FileError):
            if self.file(source, path) == sha256:
                return True
        (self.root / path).unlink(missing_ok=True)
        self.sums.pop(path, None)
        self.left_out += 1
        return False

    def _report(self) -> None:
        spent, total = time.monotonic() - self.began, max(self.total, self.bytes)
        left = spent * (total - self.bytes) / self.bytes
        self.report(Progress("copy", self.bytes >> 20, total >> 20, spent, left))


def back_up(data: Path, target: Path, tls: Path | None, report: Report, *, with_keys: bool) -> Copy:
    """Writes a backup into a new folder, mode 0700. tls: folder of certificate.pem and key.pem. with_keys:
    also clients' evaluation keys, which they could send again. Cost: reads and hashes all files once.

    Raises InputError for a folder without a ledger and for a target that is there, FileError for what cannot
    be read or written, ResourceError for want of disk; nothing is left then.
    """
    if not (data / NAME).is_file():
        raise InputError(f"backup: {data} is no server's data folder", hint="as of tacita serve --data")
    with _staging(target, "backup") as part:
        copied = [data / NAME, *(data / OFFERS).rglob("*"), *(data / REQUESTS).glob("*/re*.ct")]
        copied += (data / KEYS).rglob("*.keys") if with_keys else []
        copy = Copy(part, report, sum(path.stat().st_size for path in copied if path.exists()))
        require_disk(target.absolute().parent, copy.total, "backup")
        copy_to(data / NAME, part / DATA / NAME)
        with closing(Ledger(part / DATA)) as ledger:
            copy.file(data / SIGNING_KEY, f"{DATA}/{SIGNING_KEY}")
            copy.tree(data / OFFERS, f"{DATA}/{OFFERS}")
            for name in ("certificate.pem", "key.pem") if tls else ():
                copy.file((tls or data) / name, f"{TLS}/{name}")
            _copy_keys(ledger, Layout(data), copy, with_keys=with_keys)
            _copy_requests(ledger, Layout(data), copy)
        _as_one_file(part / DATA / NAME)
        copy.sums[f"{DATA}/{NAME}"] = sha256_of(part / DATA / NAME)
        write_text(part / SUMS, "".join(f"{sum_}  {path}\n" for path, sum_ in copy.sums.items()))
        part.rename(target.absolute())
    return copy


def restore(backup: Path, data: Path, tls: Path | None, report: Report) -> Copy:
    """Makes a data folder, and with `tls` the folder of the certificate, from a backup whose every sum is
    right; both must be new or empty. Cost: reads and hashes all files once.

    Raises FileError for a backup that is damaged, incomplete or of a later release, InputError for a folder
    that holds something; nothing is left then.
    """
    sums = _sums(backup / SUMS)
    if tls is None and any(path.startswith(TLS) for path in sums):
        raise InputError("restore: the backup holds a certificate", hint="--new-certificate FOLDER")
    with _staging(data, "restore") as part:
        copy = Copy(part, report, sum((backup / path).stat().st_size for path in sums))
        require_disk(data.absolute().parent, copy.total, "restore")
        for path, expected in sums.items():
            if copy.file(backup / path, path) != expected:
                raise FileError(f"{backup / path}: not what {SUMS} says", hint="another backup")
        Ledger(part / DATA).close()
        _as_one_file(part / DATA / NAME)
        if tls is not None and (part / TLS).is_dir():
            _require_new(tls, "restore")
            shutil.copytree(part / TLS, tls, dirs_exist_ok=True)
            tls.chmod(0o700)
        (part / DATA).rename(data.absolute())
    return copy


def _copy_keys(ledger: Ledger, layout: Layout, copy: Copy, *, with_keys: bool) -> None:
    for row in keys.every(ledger):
        source = whole(layout.keys(row.client, row.id))
        path = f"{DATA}/{source.relative_to(layout.root).as_posix()}"
        if with_keys and copy.row(source, path, row.sha256 if row.complete else None):
            copy.keys += 1
        else:
            keys.drop(ledger, row.client, row.id)


def _copy_requests(ledger: Ledger, layout: Layout, copy: Copy) -> None:
    for row in ledger.all(select(RequestRow)):
        work, done = Workdir(layout.request(row.id)), row.state is State.done
        source, sha256 = (work.response, row.response) if done else (work.request, row.sha256)
        if row.state.final and not done:
            continue  # its row says why, and it has no files
        if copy.row(source, f"{DATA}/{source.relative_to(layout.root).as_posix()}", sha256):
            copy.requests += 1
        else:
            requests.drop(ledger, row.id)


def _as_one_file(path: Path) -> None:
    """Writes the ledger's log into the ledger, so that its file alone is the whole."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=DELETE")


def _sums(path: Path) -> dict[str, str]:
    """Reads hash by path. Raises FileError for another file, and for one that names a file elsewhere."""
    try:
        if path.stat().st_size > MOST_SUMS:
            raise ValueError("too large")
        lines = [LINE.fullmatch(line) for line in path.read_text(encoding="utf-8").splitlines()]
        sums = {line[2]: line[1] for line in lines if line}
        if len(sums) != len(lines) or f"{DATA}/{NAME}" not in sums:
            raise ValueError("a line of another form, or no ledger")
    except (OSError, ValueError) as error:
        hint = "a folder that tacita backup made"
        raise FileError(f"{path}: no list of a backup ({error!s:.120})", hint=hint) from error
    return sums


@contextmanager
def _staging(target: Path, what: str) -> Iterator[Path]:
    """Makes a folder beside the target, with `data` in it, which is removed at the end. Raises InputError for
    a target that holds something, FileError for what cannot be written."""
    _require_new(target, what)
    part = target.absolute().with_name(f".{target.absolute().name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.mkdir(mode=0o700)
        (part / DATA).mkdir(mode=0o700)
        yield part
    except (OSError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise FileError(f"{what}: {target} cannot be made ({why})", hint="rights, or the disk") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _require_new(folder: Path, what: str) -> None:
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise InputError(f"{what}: {folder} holds something already", hint="a new folder")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
