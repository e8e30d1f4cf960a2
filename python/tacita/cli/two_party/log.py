"""What `tacita serve` says of each connection: one line on standard output, and what went wrong on
standard error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tacita.cli.console import err, fail, out, several, shown
from tacita.cli.two_party.connection import cost_line, show_profile
from tacita.errors import PeerError
from tacita.server.reception import Visit

QUIET = 60.0  # seconds
MOST = (
    20  # lines in that time for connections that were never admitted: anybody can make as many as they like
)


class ServeLog:
    """For threads. profile: show the operations of every admitted session. clock: seconds."""

    def __init__(self, *, profile: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._profile, self._clock = profile, clock
        self._lock = threading.Lock()
        self._began, self._lines, self._left_out = clock(), 0, 0

    def visit(self, visit: Visit) -> None:
        """A connection is over."""
        with self._lock:
            if visit.admitted or self._room():
                self._show(visit)
            else:
                self._left_out += 1

    def accepting(self, error: PeerError | None) -> None:
        """Accepting connections fails from now on, or works again."""
        with self._lock:
            if error is None:
                err.print("accepting connections again", soft_wrap=True)
            else:
                err.print(
                    f"[yellow]cannot accept connections, trying on:[/yellow] {shown(str(error))}",
                    soft_wrap=True,
                )

    def _room(self) -> bool:
        now = self._clock()
        if now - self._began >= QUIET:
            if self._left_out:
                out.print(
                    f"{several(self._left_out, 'more connection')} ended without a text in {QUIET:.0f} s"
                )
            self._began, self._lines, self._left_out = now, 0, 0
        self._lines += 1
        return self._lines <= MOST

    def _show(self, visit: Visit) -> None:
        served = visit.served
        line = f"session of {several(served.texts, 'text')}, {visit.ending}, {shown(visit.peer)}"
        out.print(f"{line}: {cost_line(visit.cost, visit.seconds)}", soft_wrap=True)
        if self._profile and visit.admitted:
            show_profile(visit.profile)
        if served.problem:
            err.print(f"[yellow]the session ended early[/yellow], {shown(visit.peer)}", soft_wrap=True)
            fail(served.problem)
        out.file.flush()
