"""What this user keeps of services: `$XDG_DATA_HOME/tacita`, by default `~/.local/share/tacita`.

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

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacita.client.http.trust import Address
from tacita.errors import FileError, PeerError
from tacita.plans import json_fields
from tacita.plans.files import Workdir, replacing

# Folders of requests that are under way, and the removal of those whose client was killed.
#
# A folder is locked (`flock` on the folder itself) for as long as its client lives: the kernel opens the lock
# when the process ends, however it ends. Of a plan's folder a shared lock is held while a request's folder is
# made, and the exclusive one while stale ones are removed, so that none is taken for stale before it is
# locked.

PREFIX = "request-"


@contextmanager
def request_folder(plan: Path) -> Iterator[Path]:
    """A new folder in a plan's, for its owner alone, which is gone afterwards."""
    with _locked(plan, fcntl.LOCK_SH):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=plan))
        held = _opened(folder)
        fcntl.flock(held, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def remove_stale(plan: Path) -> int:
    """Removes the folders in a plan's whose clients are gone; how many. None while another client makes one
    or removes them itself."""
    try:
        with _locked(plan, fcntl.LOCK_EX | fcntl.LOCK_NB):
            found = [path for path in plan.glob(f"{PREFIX}*") if path.is_dir() and not path.is_symlink()]
            return sum(map(_removed, found))
    except OSError:
        return 0


def _removed(folder: Path) -> bool:
    """Whether it was stale, and is gone."""
    try:
        with _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(folder)
    except OSError:
        return False
    return True


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """Raises BlockingIOError where others hold it and LOCK_NB is asked for."""
    held = _opened(folder)
    try:
        fcntl.flock(held, how)
        yield
    finally:
        os.close(held)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


MOST = 1 << 16  # bytes of a small file
SHORT = 16  # digits of a plan's hash that name its folder
PRIVATE, OWN = 0o700, 0o600
SERVER, ABOUT = "server.json", "about.json"


def default_folder() -> Path:
    """By the XDG base directory rules."""
    base = os.environ.get("XDG_DATA_HOME", "")
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "share"
    return root / "tacita"


@dataclass(frozen=True)
class About:
    """Of the keys in a folder. key: their id. made: UTC, ISO 8601."""

    model: str
    scheme: str
    plan: str
    key: str
    made: str


@dataclass(frozen=True)
class PlanFolder(Workdir):
    """Keys of one plan at one server."""

    @property
    def about(self) -> About | None:
        """None where no keys were made. Raises FileError for a damaged file."""
        if not (self.path / ABOUT).exists():
            return None
        return About(**_texts(self.path / ABOUT, tuple(About.__annotations__)))

    def tell(self, about: About) -> None:
        """Writes what is known of the keys."""
        private(self.path)
        _write(self.path / ABOUT, vars(about))

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    def remove(self) -> None:
        """All of it: what was encrypted with these keys can then be read by nobody."""
        shutil.rmtree(self.path)

    @contextmanager
    def errand(self) -> Iterator[Errand]:
        """A folder for one request, which is gone afterwards."""
        with request_folder(private(self.path)) as folder:
            yield Errand(folder, self.secret_key)


@dataclass(frozen=True)
class Errand(Workdir):
    """Of one request; its key is the plan's."""

    key: Path

    @property
    def secret_key(self) -> Path:
        return self.key


@dataclass(frozen=True)
class ServerFolder:
    """Of one address."""

    path: Path

    @property
    def known(self) -> Mapping[str, str] | None:
        """Its url and signer; None of a server that was not met, or forgotten. Raises FileError."""
        path = self.path / SERVER
        return _texts(path, ("url", "signer")) if path.exists() else None

    def meet(self, url: str, signer: str) -> None:
        """Keeps the signer at the first contact. Raises PeerError where it was another before."""
        known = self.known
        if known is None:
            _write(private(self.path) / SERVER, {"url": url, "signer": signer})
        elif known["signer"] != signer:
            raise PeerError(
                f"{url} signs with key {signer[:16]}, it was {known['signer'][:16]} before",
                hint=f"compare {signer} with the operator's; if it is right: tacita keys forget {url}",
            )

    def forget(self) -> bool:
        """The signer, not the keys; whether there was one."""
        known = (self.path / SERVER).exists()
        (self.path / SERVER).unlink(missing_ok=True)
        return known

    def plan(self, plan: str) -> PlanFolder:
        """Of a plan's hash."""
        return PlanFolder(self.path / plan[:SHORT])

    @property
    def plans(self) -> list[PlanFolder]:
        """Those that hold keys."""
        return [PlanFolder(path) for path in _folders(self.path) if (path / ABOUT).exists()]


@dataclass(frozen=True)
class Store:
    """root: the folder above."""

    root: Path

    def server(self, address: Address) -> ServerFolder:
        """The folder of an address, which need not be there."""
        return ServerFolder(self.root / "servers" / address.name)

    @property
    def servers(self) -> list[ServerFolder]:
        """All that are there."""
        return [ServerFolder(path) for path in _folders(self.root / "servers")]

    @property
    def public(self) -> Path:
        """The cache, made if need be."""
        return private(self.root / "public")

    def ready(self) -> None:
        """Makes the folders, and removes requests of clients that were killed. Raises FileError."""
        for path in (self.root, self.root / "servers", self.root / "public"):
            private(path)
        for server in self.servers:
            for plan in _folders(server.path):
                remove_stale(plan)


def private(path: Path) -> Path:
    """The folder, for its owner alone. Raises FileError."""
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
    """Fields of a small file, all of them texts. Raises FileError for anything else."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST + 1)
        found: Any = json_fields.loads(data.decode()) if len(data) <= MOST else None
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or set(found) != set(names):
        raise FileError(f"{path}: damaged", hint="remove the file")
    if not all(isinstance(value, str) for value in found.values()):
        raise FileError(f"{path}: damaged", hint="remove the file")
    return found
