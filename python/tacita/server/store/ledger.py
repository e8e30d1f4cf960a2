"""The ledger's file, and room for it on a full disk: a file of zeros, given up at the first write that finds
none."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Engine,
    Executable,
    Select,
    create_engine,
    event,
    func,
    select,
)
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.orm import Session

from tacita.errors import FileError, ResourceError
from tacita.server.store.tables import STEPS, VERSION, Row

RESERVE, BYTES = "reserve", 16 << 20


def hold(folder: Path) -> None:
    """Makes the file, mode 0600, unless it is there; where the disk has no room for it there is none."""
    path = folder / RESERVE
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, BYTES)
    except FileExistsError:
        return
    except OSError:
        give_up(folder)


def give_up(folder: Path) -> None:
    (folder / RESERVE).unlink(missing_ok=True)


# The ledger's file: opened once by a server, and by `tacita token` beside it.
#
# SQLite with a write-ahead log: a transaction is there or not there after kill -9 and after a full disk, and
# the token command can write while the server runs. Calls take some 0.1 ms and are made in the event loop.

NAME = "ledger.sqlite"
PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=5000")
FULL = "disk is full"
LOCKED = "database is locked"
T = TypeVar("T")


class Ledger:
    """The ledger's file. folder: the server's data folder; the file is made there, mode 0600. clock: Unix
    seconds.

    Raises FileError for a file that is no ledger, or one of a later release.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self.clock = folder / NAME, clock
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        self._engine = _engine(self.path)
        try:
            _prepare(self._engine, self.path)
        except (DatabaseError, sqlite3.Error, FileError) as error:
            self.close()
            reason = str(getattr(error, "orig", error))
            raise FileError(
                f"{self.path}: no ledger of this release ({reason:.200})",
                hint="the release that wrote it, or another --data folder",
            ) from error

    @contextmanager
    def change(self) -> Iterator[Session]:
        """Opens a transaction: all of it, or nothing where the block raises. Raises ResourceError when the
        disk is full; the reserve has then been given up, see `insist`."""
        with (
            self._translate_errors(),
            Session(self._engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    def run(self, *statements: Executable) -> int:
        """Executes statements in one transaction, as `change`. Returns how many rows the last one changed."""
        with self._translate_errors(), self._engine.begin() as connection:
            return int([connection.execute(statement) for statement in statements][-1].rowcount)

    def all(self, wanted: Select[T]) -> list[T]:
        """Returns what is selected: rows, or one column of them."""
        with self._translate_errors(), Session(self._engine) as session:
            return list(session.scalars(wanted))

    def one(self, wanted: Select[T]) -> T | None:
        """Returns the only row that is selected, or None."""
        return next(iter(self.all(wanted)), None)

    def count(self, *conditions: ColumnElement[bool]) -> int:
        """Returns how many rows of one table meet the conditions."""
        return self.all(select(func.count()).where(*conditions))[0]

    def insist(self, change: Callable[[], T]) -> T:
        """Returns what `change` returns, and calls it a second time where the disk was full: for what must be
        written, removals above all. Raises ResourceError when the reserve was not enough."""
        try:
            return change()
        except ResourceError:
            return change()

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OperationalError as error:
            if LOCKED in str(error.orig):
                raise ResourceError("ledger: another program holds it", hint="try again later") from None
            if FULL not in str(error.orig):
                raise
            give_up(self.path.parent)
            raise ResourceError("ledger: the disk is full", hint="remove keys or requests") from None


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False})

    def prepare(connection: Any, _record: Any) -> None:
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", prepare)
    return engine


def _prepare(engine: Engine, path: Path) -> None:
    """Makes the tables of a new file, or takes the steps from an earlier version in one transaction: all of
    them, or none. The file before is kept beside it, for a return to the earlier release."""
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # of two programs one waits here, and finds it done
        version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
        if not 0 <= version <= VERSION:
            raise FileError(f"version {version}, this release has {VERSION}", hint="")
        if version == 0:
            Row.metadata.create_all(connection)
        elif version < VERSION:
            copy_to(path, path.with_name(f"{NAME}.version-{version}"))
        for statement in (one for step in STEPS[version - 1 :] if version for one in step):
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql(f"PRAGMA user_version={VERSION}")
        connection.commit()


def copy_to(path: Path, copy: Path) -> None:
    """Writes a ledger as it is at one moment to another file, mode 0600, also while a server writes to it.
    Raises sqlite3.Error where there is no room, or no ledger."""
    copy.unlink(missing_ok=True)
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with (
        closing(sqlite3.connect(path.absolute().as_uri() + "?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
