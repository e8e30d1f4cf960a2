"""Calls when a job's deadline has passed, by the service's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tacita.service.dispatch.base import Job

SHORTEST, LONGEST = 0.05, 3600.0  # seconds between two looks at the clock, which may be set anew meanwhile


class Deadlines:
    """overdue: called once for each job that is watched until its deadline, in the event loop's thread."""

    def __init__(self, clock: Callable[[], float], overdue: Callable[[Job], None]) -> None:
        self._clock, self._overdue = clock, overdue
        self._timers = dict[str, asyncio.TimerHandle]()

    def passed(self, job: Job) -> bool:
        """Whether it is over now."""
        return job.deadline is not None and self._clock() >= job.deadline

    def watch(self, job: Job) -> None:
        """From now on; a job without a deadline never."""
        if job.deadline is not None:
            seconds = min(max(job.deadline - self._clock(), SHORTEST), LONGEST)
            self._timers[job.id] = asyncio.get_running_loop().call_later(seconds, self._look, job)

    def forget(self, id: str) -> None:
        """The job has ended."""
        if timer := self._timers.pop(id, None):
            timer.cancel()

    def close(self) -> None:
        """Of all jobs."""
        for id in list(self._timers):
            self.forget(id)

    def _look(self, job: Job) -> None:
        del self._timers[job.id]
        if self.passed(job):
            self._overdue(job)
        else:
            self.watch(job)
