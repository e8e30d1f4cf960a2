"""A copy of a server's data folder, made while the server runs, and the way back.

    manifest.json   format, release, and size and SHA-256 of every file below
    data/           the ledger at one moment, signing key, plans, keys, requests and answers that wait
    tls/            certificate and key, where they were given

The ledger comes first, by SQLite's own copy; then the files that its rows name, each checked against the hash
in its row. What a client removed meanwhile, and what had not come whole, is left out with its row. So the
copy is what the server would be after a power cut at that moment, without resume points.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from sqlalchemy import select

from tacita.errors import FileError, InputError
from tacita.plans.files import Workdir, write_text
from tacita.plans.wire import State
from tacita.resources import require_disk
from tacita.server.core.offers import FOLDER as OFFERS
from tacita.server.core.settings import NAME as SIGNING_KEY
from tacita.server.store import keys, requests
from tacita.server.store.bodies import Layout, whole
from tacita.server.store.ledger import NAME, Ledger, copy_to
from tacita.server.store.tables import KeyRow, RequestRow
from tacita.version import __version__

FORMAT, VERSION = "tacita-backup", 1
MANIFEST, DATA, TLS = "manifest.json", "data", "tls"
MOST_MANIFEST, PIECE = 64 << 20, 1 << 20  # bytes
PATH = re.compile(r"(data|tls)(/(?!\.)[\w.\-]{1,120}){1,6}")  # of a file in a manifest
SUM = re.compile(r"[0-9a-f]{64}")


@dataclass
class Contents:
    """What a backup holds. files: bytes and hash by path. left_out: rows whose file was gone or damaged."""

    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    keys: int = 0
    requests: int = 0
    left_out: int = 0

    @property
    def bytes(self) -> int:
        """Returns the bytes of all files."""
        return sum(count for count, _ in self.files.values())


Report = Callable[[int, int], None]  # bytes that were copied, and of how many


def back_up(data: Path, target: Path, tls: Path | None, report: Report, *, with_keys: bool) -> Contents:
    """Writes a backup into a new folder, mode 0700. tls: folder of certificate.pem and key.pem. with_keys:
    also clients' evaluation keys, which they could send again. Cost: reads and hashes all files once.

    Raises InputError for a folder without a ledger and for a target that is there, FileError for what cannot
    be read or written, ResourceError for want of disk; nothing is left then.
    """
    if not (data / NAME).is_file():
        raise InputError(f"backup: {data} is no server's data folder", hint="as of tacita serve --data")
    with _staging(target, "backup") as part:
        contents, into = Contents(), part / DATA
        into.mkdir(mode=0o700)
        copy_to(data / NAME, into / NAME)
        with closing(Ledger(into)) as ledger:
            copy = _Copy(part, contents, report, _size(ledger, data, with_keys=with_keys))
            require_disk(target.absolute().parent, copy.total, "backup")
            copy.tree(data / SIGNING_KEY, f"{DATA}/{SIGNING_KEY}")
            copy.tree(data / OFFERS, f"{DATA}/{OFFERS}")
            if tls is not None:
                for name in ("certificate.pem", "key.pem"):
                    copy.file(tls / name, f"{TLS}/{name}")
            _copy_rows(ledger, Layout(data), copy, with_keys=with_keys)
        _as_one_file(into)
        contents.files[f"{DATA}/{NAME}"] = ((into / NAME).stat().st_size, _hash(into / NAME))
        manifest = {"format": FORMAT, "version": VERSION, "release": __version__, "files": contents.files}
        write_text(part / MANIFEST, json.dumps(manifest, indent=1))
        part.rename(target.absolute())
    return contents


def restore(backup: Path, data: Path, tls: Path | None, report: Report) -> Contents:
    """Makes a data folder, and with `tls` the folder of the certificate, from a backup whose every sum is
    right; both must be new or empty. Cost: reads and hashes all files once.

    Raises FileError for a backup that is damaged, incomplete or of a later release, InputError for a folder
    that holds something; nothing is left then.
    """
    contents = Contents(_manifest(backup / MANIFEST))
    if tls is None and any(path.startswith(TLS) for path in contents.files):
        raise InputError("restore: the backup holds a certificate", hint="--new-certificate FOLDER")
    require_disk(data.absolute().parent, contents.bytes, "restore")
    with _staging(data, "restore") as part:
        copy = _Copy(part, Contents(), report, contents.bytes)
        for path, expected in contents.files.items():
            copy.file(backup / path, path)
            if copy.contents.files[path] != expected:
                raise FileError(f"{backup / path}: not what the manifest says", hint="another backup")
        Ledger(part / DATA).close()
        _as_one_file(part / DATA)
        if tls is not None and (part / TLS).is_dir():
            _require_new(tls, "restore")
            shutil.copytree(part / TLS, tls, dirs_exist_ok=True)
            tls.chmod(0o700)
        (part / DATA).rename(data.absolute())
    return contents


@dataclass
class _Copy:
    """Copies files below a folder, and writes down what they are. total: bytes to expect."""

    root: Path
    contents: Contents
    report: Report
    total: int
    done: int = 0

    def file(self, source: Path, path: str) -> str:
        """Copies a file, mode 0600, onto the disk; returns its hash. Raises FileError."""
        target, digest, count = self.root / path, hashlib.sha256(), 0
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with source.open("rb") as file, target.open("xb", opener=_private) as copy:
                while piece := file.read(PIECE):
                    digest.update(piece)
                    copy.write(piece)
                    count += len(piece)
                    self.report(self.done + count, max(self.total, self.done + count))
                copy.flush()
                os.fsync(copy.fileno())
        except OSError as error:
            raise FileError(
                f"{source}: cannot be copied ({error.strerror})", hint="rights, or the disk"
            ) from error
        self.done += count
        self.contents.files[path] = count, digest.hexdigest()
        return digest.hexdigest()

    def tree(self, source: Path, path: str) -> None:
        """Copies a file, or all files below a folder."""
        for each in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if each.is_file() and not each.name.startswith("."):  # a name with a dot is being written
                self.file(each, str(PurePosixPath(path, *each.relative_to(source).parts)))

    def row(self, source: Path, path: str, sha256: str) -> bool:
        """Copies the file of a row. Returns whether it was there with this hash; nothing stays if not."""
        with suppress(FileError):
            if self.file(source, path) == sha256:
                return True
        (self.root / path).unlink(missing_ok=True)
        self.contents.files.pop(path, None)
        return False


def _copy_rows(ledger: Ledger, layout: Layout, copy: _Copy, *, with_keys: bool) -> None:
    contents = copy.contents
    for row in keys.every(ledger):
        source = whole(layout.keys(row.client, row.id))
        if with_keys and row.complete and copy.row(source, _below(layout, source), row.sha256):
            contents.keys += 1
        else:
            contents.left_out += with_keys
            keys.drop(ledger, row.client, row.id)
    for request in ledger.all(select(RequestRow)):
        if request.state.final and request.state is not State.done:
            continue  # its row says why, and it has no files
        work = Workdir(layout.request(request.id))
        done = request.state is State.done
        source, sha256 = (work.response, request.response) if done else (work.request, request.sha256)
        if copy.row(source, _below(layout, source), sha256 or ""):
            contents.requests += 1
        else:
            contents.left_out += 1
            requests.drop(ledger, request.id)


def _below(layout: Layout, path: Path) -> str:
    return str(PurePosixPath(DATA, *path.relative_to(layout.root).parts))


def _size(ledger: Ledger, data: Path, *, with_keys: bool) -> int:
    """Returns about how many bytes a backup takes."""
    rows: list[KeyRow] = keys.every(ledger) if with_keys else []
    work = [*(data / OFFERS).rglob("*"), *(data / "requests").glob("*/re*.ct"), data / NAME]
    return sum(row.received for row in rows) + sum(_length(path) for path in work)


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it went meanwhile
        return 0


def _as_one_file(folder: Path) -> None:
    """Writes the ledger's log into the ledger, so that its file alone is the whole."""
    with closing(sqlite3.connect(folder / NAME)) as database:
        database.execute("PRAGMA journal_mode=DELETE")


def _manifest(path: Path) -> dict[str, tuple[int, str]]:
    """Reads the files of a manifest. Raises FileError for one that is none, or names a file elsewhere."""
    try:
        if path.stat().st_size > MOST_MANIFEST:
            raise ValueError("too large")
        head = json.loads(path.read_bytes())
        if (head["format"], head["version"]) != (FORMAT, VERSION):
            raise ValueError(f"format {head['format']!s:.40}, version {head['version']!s:.20}")
        files = {str(name): (int(count), str(sum_)) for name, (count, sum_) in head["files"].items()}
        if f"{DATA}/{NAME}" not in files:
            raise ValueError("without a ledger")
        if bad := [name for name, (_, sum_) in files.items() if not (PATH.fullmatch(name) and SUM.fullmatch(sum_))]:
            raise ValueError(f"{bad[0]!r:.80} is no file of a backup")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{path}: no manifest of a backup that this release reads ({error!s:.120})",
            hint="a folder that tacita backup made, or a later release",
        ) from error
    return files


@contextmanager
def _staging(target: Path, what: str) -> Iterator[Path]:
    """Makes a folder beside the target, which is removed at the end. Raises InputError for a target that
    holds something, FileError for what cannot be written."""
    _require_new(target, what)
    part = target.absolute().with_name(f".{target.absolute().name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(mode=0o700, parents=True)
        yield part
    except (OSError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise FileError(f"{what}: {target} cannot be written ({why})", hint="rights, or the disk") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _require_new(folder: Path, what: str) -> None:
    if folder.is_symlink() or folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{what}: {folder} holds something already", hint="a new folder")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
