"""Keeps this user's keys and data of services: `$XDG_DATA_HOME/tacita`, by default `~/.local/share/tacita`.

    servers/<host_port>/server.json           the service's address, and the key that signs its receipts
    servers/<host_port>/<plan>/               plan: the first 16 digits of its hash
        about.json                            model, scheme, plan, id of the keys, when they were made
        secret.key                            stays here; whoever has it reads the answers
        secret.key.use                        how many answers it has decrypted
        evaluation.keys                       until the server has all of it
    public/<sha256>/                          what a server publishes of a model; can be fetched again

Folders are 0700 and files 0600.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacita.client.http.trust import Address
from tacita.errors import FileError, PeerError
from tacita.plans import json_fields
from tacita.plans.files import Workdir, replacing
from tacita.resources import hold_lock
from tacita.two_party.protocol.public_part import MAX_BYTES, digest

# Folders of requests that are under way, and the removal of those whose client was killed.
#
# A folder is locked for as long as its client lives (`resources.lock`). The plan's folder is locked while a
# request's folder is made and while stale ones are removed, so that none is taken for stale before it is
# locked.

PREFIX = "request-"


def remove_stale(plan: Path) -> int:
    """Removes the request folders of a plan whose clients are gone, and returns their number: 0 while another
    client makes one or removes them itself."""
    try:
        with hold_lock(plan, wait=False):
            stale = [path for path in plan.glob(f"{PREFIX}*") if path.is_dir() and not path.is_symlink()]
            return sum(map(_removed, stale))
    except OSError:
        return 0


def _removed(folder: Path) -> bool:
    """Removes a folder that is stale, and tells whether it was."""
    try:
        with hold_lock(folder, wait=False):
            pass  # Windows removes no folder with an open file; the plan's lock keeps others away
        shutil.rmtree(folder)
    except OSError:
        return False
    return True


MOST = 1 << 16  # bytes of a small file
SHORT = 16  # digits of a plan's hash that name its folder
PRIVATE, OWN = 0o700, 0o600
SERVER, ABOUT = "server.json", "about.json"


def data_folder() -> Path:
    """Returns the store's folder by the XDG base directory rules."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def cache_folder(name: str = "public") -> Path:
    """Returns the folder of cached parts (or other things of this name), by the XDG base directory rules."""
    return _xdg("XDG_CACHE_HOME", ".cache") / name


def _xdg(variable: str, default: str) -> Path:
    base = os.environ.get(variable, "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / default) / "tacita"


@dataclass(frozen=True)
class About:
    """A description of the keys in a folder. key: their id. made: UTC, ISO 8601."""

    model: str
    scheme: str
    plan: str
    key: str
    made: str


@dataclass(frozen=True)
class PlanFolder(Workdir):
    """A folder of the keys of one plan at one server."""

    @property
    def about(self) -> About | None:
        """The description of the keys; None where none were made. Raises FileError for a damaged file."""
        if not (self.path / ABOUT).exists():
            return None
        return About(**_texts(self.path / ABOUT, tuple(About.__annotations__)))

    def write_about(self, about: About) -> None:
        private(self.path)
        _write(self.path / ABOUT, vars(about))

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    def remove(self) -> None:
        """Removes the folder: nobody can then read what was encrypted with these keys."""
        shutil.rmtree(self.path)

    @contextmanager
    def request_folder(self) -> Iterator[RequestFolder]:
        """Makes a folder for one request, readable by its owner alone, and removes it afterwards."""
        with ExitStack() as held:
            with hold_lock(private(self.path), wait=True):
                folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self.path))
                held.callback(shutil.rmtree, folder, ignore_errors=True)
                held.enter_context(hold_lock(folder, wait=True))
            yield RequestFolder(folder, self.secret_key)


@dataclass(frozen=True)
class RequestFolder(Workdir):
    """A folder of the files of one request, with the secret key of the plan's folder."""

    key: Path

    @property
    def secret_key(self) -> Path:
        return self.key


@dataclass(frozen=True)
class ServerFolder:
    """The folder of one server address."""

    path: Path

    @property
    def record(self) -> Mapping[str, str] | None:
        """The url and signer of the server; None for one not met, or forgotten. Raises FileError."""
        path = self.path / SERVER
        return _texts(path, ("url", "signer")) if path.exists() else None

    def meet(self, url: str, signer: str) -> None:
        """Keeps the signer at the first contact. Raises PeerError where it was another before."""
        record = self.record
        if record is None:
            _write(private(self.path) / SERVER, {"url": url, "signer": signer})
        elif record["signer"] != signer:
            raise PeerError(
                f"{url} signs with key {signer[:16]}, it was {record['signer'][:16]} before",
                hint=f"compare {signer} with the operator's; if it is right: tacita keys forget {url}",
            )

    def forget(self) -> bool:
        """Forgets the signer, not the keys, and tells whether there was one."""
        existed = (self.path / SERVER).exists()
        (self.path / SERVER).unlink(missing_ok=True)
        return existed

    def plan(self, plan: str) -> PlanFolder:
        """Returns the folder of a plan's hash, which need not be there."""
        return PlanFolder(self.path / plan[:SHORT])

    @property
    def plans(self) -> list[PlanFolder]:
        """The folders that hold keys."""
        return [PlanFolder(path) for path in _folders(self.path) if (path / ABOUT).exists()]


@dataclass(frozen=True)
class Store:
    """The folder of all servers and their published parts. root: `data_folder`, or another."""

    root: Path

    def server(self, address: Address) -> ServerFolder:
        """Returns the folder of an address, which need not be there."""
        return ServerFolder(self.root / "servers" / address.name)

    @property
    def servers(self) -> list[ServerFolder]:
        """The folders of servers that are there."""
        return [ServerFolder(path) for path in _folders(self.root / "servers")]

    @property
    def public(self) -> Path:
        """The folder of published parts, made if need be."""
        return private(self.root / "public")

    def ready(self) -> None:
        """Makes the folders, and removes requests of clients that were killed. Raises FileError."""
        for path in (self.root, self.root / "servers", self.root / "public"):
            private(path)
        for server in self.servers:
            for plan in _folders(server.path):
                remove_stale(plan)


def private(path: Path) -> Path:
    """Makes a folder that its owner alone can read, and returns it. Raises FileError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=PRIVATE, exist_ok=True)
        if path.stat().st_mode & 0o077:
            path.chmod(PRIVATE)
    except OSError as error:
        raise FileError(f"{path}: the folder cannot be made ({error})", hint="choose another one") from error
    return path


def _folders(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if each.is_dir()) if path.is_dir() else []


def _write(path: Path, content: Mapping[str, str]) -> None:
    with replacing(path, mode=OWN) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _texts(path: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Reads the fields of a small file, all of them texts. Raises FileError for anything else."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST + 1)
        content: Any = json_fields.loads(data.decode()) if len(data) <= MOST else None
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict) or set(content) != set(names):
        raise FileError(f"{path}: damaged", hint="remove the file")
    if not all(isinstance(value, str) for value in content.values()):
        raise FileError(f"{path}: damaged", hint="remove the file")
    return content


# Public parts of models of two parties by their sha256: `$XDG_CACHE_HOME/tacita/public`, by default under
# ~/.cache. They can be deleted at any time. A file that does not match its name is not used, and is fetched
# again.

MOST_CACHED = 2 * MAX_BYTES


class PublicCache:
    """A folder of files named by hash; those that were used last stay, up to `MOST_CACHED` bytes: a hidden
    table is another with each of its server's keys. A failed write is no error: the part is fetched again
    next time."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder()

    def get(self, name: bytes) -> bytes | None:
        """Returns the part of this sha256, or None."""
        path = self._path(name)
        try:
            if path.stat().st_size > MAX_BYTES:
                return None
            data = path.read_bytes()
        except OSError:
            return None
        if digest(data) != name:
            return None
        with suppress(OSError):
            os.utime(path)
        return data

    def put(self, name: bytes, data: bytes) -> None:
        """Keeps the part if the folder can be written, in place of those that were used longest ago."""
        with suppress(FileError, OSError):  # another process may remove the same files
            with replacing(self._path(name)) as temporary:
                temporary.write_bytes(data)
            parts = [(path.stat(), path) for path in self._folder.glob(f"{'[0-9a-f]' * 64}.part")]
            total = 0
            for about, path in sorted(parts, key=lambda part: part[0].st_mtime_ns, reverse=True):
                total += about.st_size
                if total > MOST_CACHED:
                    path.unlink()

    def _path(self, name: bytes) -> Path:
        return self._folder / f"{name.hex()}.part"
