"""What the service's own processes, workers and those of sessions, are to it: they end with it, however it
ended, and leave signals to it."""

from __future__ import annotations

import ctypes
import signal
import sys

SET_PDEATHSIG = 1  # of prctl(2): PR_SET_PDEATHSIG in linux/prctl.h


def die_with_parent() -> None:
    """The kernel kills this process when the thread that started it ends (Linux; elsewhere, and where the
    parent was gone before, the end of what they talk over tells)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def ignore_signals() -> None:
    """SIGTERM and SIGINT are the service's to obey: systemd and terminals send them to every process of a
    group, and a process that ended at once would break off what the service lets come to its end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
