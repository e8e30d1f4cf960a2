"""Room for the ledger on a full disk: a file of zeros, given up at the first write that finds no room."""

from __future__ import annotations

import os
from pathlib import Path

NAME, BYTES = "reserve", 16 << 20


def hold(folder: Path) -> None:
    """Makes the file, mode 0600, unless it is there; where the disk has no room for it there is none."""
    path = folder / NAME
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, BYTES)
    except FileExistsError:
        return
    except OSError:
        give_up(folder)


def give_up(folder: Path) -> None:
    """Removes the file, if it is there."""
    (folder / NAME).unlink(missing_ok=True)
