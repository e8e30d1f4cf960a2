"""Folders of requests that are under way, and the removal of those whose client was killed.

A folder is locked (`flock` on the folder itself) for as long as its client lives: the kernel opens the lock
when the process ends, however it ends. Of a plan's folder a shared lock is held while a request's folder is
made, and the exclusive one while stale ones are removed, so that none is taken for stale before it is locked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
