"""Seconds and memory of a process and of those that come from it, as the kernel counts them (Linux)."""

from __future__ import annotations

import os
from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and all that come from it."""
    parents = {each: parent for each in _processes() if (parent := _stat(each, 1)) is not None}
    found, waiting = list[int](), [pid]
    while waiting:
        found.append(waiting.pop())
        waiting += [each for each, parent in parents.items() if parent == found[-1]]
    return found


def cpu_seconds(pid: int) -> float:
    """That a process and those that come from it have taken so far."""
    ticks = sum((_stat(each, 11) or 0) + (_stat(each, 12) or 0) for each in family(pid))
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_gb(pid: int) -> float:
    """Returns the resident GB of a process and its children; pages that they share count in each."""
    pages = sum(_stat(each, 21) or 0 for each in family(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _stat(pid: int, field: int) -> int | None:
    """A number of /proc/PID/stat, counted from behind the name; None for a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[field])
    except (OSError, IndexError, ValueError):
        return None
