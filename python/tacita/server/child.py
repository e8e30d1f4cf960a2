"""Set-up of the service's own processes, workers and those of sessions: they end with it, however it ended,
leave signals to it, and go first where memory is short."""

from __future__ import annotations

import ctypes
import signal
import sys
from contextlib import suppress
from pathlib import Path

KILLED_FIRST = 500  # of 1000, added to a process's badness: see oom_score_adj in proc(5)
SET_PDEATHSIG = 1  # of prctl(2): PR_SET_PDEATHSIG in linux/prctl.h


def die_with_parent() -> None:
    """Has the kernel kill this process when the thread that started it ends (Linux; elsewhere, and where the
    parent was gone before, the end of what they talk over tells)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def ignore_signals() -> None:
    """Ignores SIGTERM and SIGINT, which are the service's to obey: systemd and terminals send them to a whole
    group, and a process that ended at once would break off what the service lets come to its end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def yield_memory() -> None:
    """Has the kernel end this process before the service where the machine runs short of memory (Linux)."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(KILLED_FIRST), encoding="ascii")
