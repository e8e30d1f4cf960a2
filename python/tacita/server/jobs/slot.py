"""A place for a worker: the child that is there, and the job that it has.

A pool on one machine has one slot, a pool on many has one at each. Everything happens in the event loop's
thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tacita.server.child import Child, Supervisor
from tacita.server.jobs.messages import Evaluate, Order, Reply, Stop
from tacita.server.jobs.queue import Job


@dataclass
class Running:
    """The job that a worker has. ending: why it was told to stop: "" (it was not), or one of the reasons of
    the pool. over: set when no process works in its folder any more."""

    job: Job
    ending: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event)


class WorkerSlot:
    """One place for a worker in a pool.

    on_message: called with what the worker says, as `Supervisor` calls it. on_exit: called with the job of a
    worker that ended; returns whether another is wanted. on_ready: called when another waits. running: the
    job of its worker. resident: keys in the worker's memory, as last told. sent_keys: ids of the keys that it
    was asked to use, which it may have in memory. leaving: nobody follows this worker.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Awaitable[Child]],
        on_message: Callable[[WorkerSlot, Reply], None],
        on_exit: Callable[[Running | None], bool],
        on_ready: Callable[[], None],
    ) -> None:
        self._on_exit = on_exit
        self.worker = Supervisor(
            name, start, lambda message: on_message(self, message), self._exited, on_ready
        )
        self.running: Running | None = None
        self.resident, self.sent_keys, self.leaving = 0, set[str](), False

    @property
    def pid(self) -> int | None:
        """Returns the worker's process id; None while there is no worker."""
        return None if self.worker.child is None else self.worker.child.pid

    @property
    def idle(self) -> bool:
        """Returns whether a worker waits here."""
        return self.worker.child is not None and self.running is None and not self.leaving

    def give(self, job: Job) -> None:
        """Hands a job to the worker that waits."""
        assert self.idle and self.running is None
        self.running = Running(job)
        self.sent_keys.add(job.key_id)
        keys, folder = str(job.keys.absolute()), str(job.folder.absolute())
        self._send(Evaluate(job.id, job.key_id, keys, folder))

    def end(self, running: Running, why: str) -> None:
        """Tells the worker to end the job before its next stage."""
        running.ending = why
        self._send(Stop(running.job.id))

    def release(self) -> Running | None:
        """Takes the job from it, and returns it."""
        running, self.running = self.running, None
        if running is not None:
            running.over.set()
        return running

    def leave(self) -> None:
        """Ends the worker for good: its machine is no more, nobody follows."""
        self.leaving = True
        self.worker.leave()

    async def close(self) -> None:
        """Ends the worker, whatever it does."""
        await self.worker.close()
        self.release()

    def _send(self, order: Order) -> None:
        try:
            if self.worker.child is not None:
                self.worker.child.send(order)
        except OSError:  # it is gone, or reads nothing
            self.worker.kill()

    def _exited(self) -> bool:
        self.resident = 0
        self.sent_keys.clear()
        return self._on_exit(self.release()) and not self.leaving
