"""A place for a worker: the one that is there, the job that it has, and who follows when it dies.

A pool on one machine has one slot, a pool on many has one at each. Everything happens in the event loop's
thread.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Protocol

from tacita.errors import PeerError, TacitaError
from tacita.server.jobs.queue import Job, WorkerSpec
from tacita.server.jobs.worker import Start, Worker
from tacita.server.workers.messages import Evaluate, Reply, Stop

LONGEST_PAUSE = 60.0  # seconds between two starts of a worker that does not stay

log = logging.getLogger(__name__)


@dataclass
class Running:
    """The job that a worker has. ending: why it was told to stop: "" (it was not), or one of the reasons of
    the pool. over: set when no process works in its folder any more."""

    job: Job
    ending: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event)


class SlotCallbacks(Protocol):
    """What a slot tells its pool."""

    def on_message(self, slot: WorkerSlot, message: Reply) -> None:
        """Handles a message of the worker. Raises PeerError for what no job that runs can have caused."""

    def on_worker_exit(self, slot: WorkerSlot, running: Running | None) -> bool:
        """Handles the end of the worker and of its job. Returns whether another worker is wanted."""

    def advance(self) -> None:
        """Hands out jobs: a worker waits."""


class WorkerSlot:
    """One place for a worker in a pool. running: the job of its worker. resident: keys in the worker's
    memory, as last told. sent_keys: ids of the keys that it was asked to use, which it may have in memory.
    leaving: nobody follows this worker."""

    def __init__(self, spec: WorkerSpec, save_every: float, start: Start, callbacks: SlotCallbacks) -> None:
        self._spec, self._save_every, self._start, self._callbacks = spec, save_every, start, callbacks
        self._worker: Worker | None = None
        self._life: asyncio.Task[None] | None = None
        self._starts = 0
        self.running: Running | None = None
        self.resident, self.sent_keys, self.leaving = 0, set[str](), False

    @property
    def pid(self) -> int | None:
        """Returns the worker's process id; None while there is no worker."""
        return None if self._worker is None else self._worker.pid

    @property
    def idle(self) -> bool:
        """Returns whether a worker waits here."""
        return self._worker is not None and self.running is None and not self.leaving

    @property
    def over(self) -> bool:
        """Returns whether it is left for good: no worker is here and none will be."""
        return self.leaving and (self._life is None or self._life.done())

    async def open(self) -> None:
        """Starts its worker and waits until it is ready. Raises as `worker.start`."""
        self._worker = await self._start(self._spec, self._save_every)
        self._life = asyncio.create_task(self._live())

    def join(self) -> None:
        """Starts its worker in the background, however many attempts that takes."""
        self._life = asyncio.create_task(self._live())

    def give(self, job: Job) -> None:
        """Hands a job to the worker that waits."""
        assert self._worker is not None and self.running is None  # it is idle
        self.running = Running(job)
        self.sent_keys.add(job.key_id)
        keys, folder = str(job.keys.absolute()), str(job.folder.absolute())
        self._worker.send(Evaluate(job.id, job.key_id, keys, folder))

    def end(self, running: Running, why: str) -> None:
        """Tells the worker to end the job before its next stage."""
        running.ending = why
        if self._worker is not None:
            self._worker.send(Stop(running.job.id))

    def release(self) -> Running | None:
        """Takes the job from it, and returns it."""
        running, self.running = self.running, None
        if running is not None:
            running.over.set()
        return running

    def mark_working(self) -> None:
        """Records that the worker works: the next one follows it without a pause."""
        self._starts = 0

    def kill(self) -> None:
        """Ends the worker at once, if there is one."""
        if self._worker is not None:
            self._worker.kill()

    def leave(self) -> None:
        """Ends the worker for good: its machine is no more, nobody follows."""
        self.leaving = True
        if self._worker is not None:
            self._worker.kill()
        elif self._life is not None:
            self._life.cancel()

    async def close(self) -> None:
        """Ends the worker, whatever it does."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
        if self._worker is not None:
            await self._worker.end()
            self._worker = None
        self.release()

    async def _live(self) -> None:
        """Reads the messages of this worker and of those that replace it."""
        while True:
            if self._worker is not None:
                await self._hear(self._worker)
                self._worker, self.resident = None, 0
                self.sent_keys.clear()
                if not self._callbacks.on_worker_exit(self, self.release()):
                    return
            self._worker = await self._replace()
            self._callbacks.advance()

    async def _hear(self, worker: Worker) -> None:
        """Reads the worker's messages until it is no more."""
        try:
            while (message := await worker.hear()) is not None:
                self._callbacks.on_message(self, message)
        except PeerError as error:
            log.error("worker %d of %s: %s", worker.pid, self._spec.name, error)
        await worker.end()
        log.warning("worker %d of %s has ended", worker.pid, self._spec.name)

    async def _replace(self) -> Worker:
        """Starts another worker, after a pause that grows while the ones before did no stage."""
        while True:
            await asyncio.sleep(min(2.0 ** min(self._starts, 10) - 1, LONGEST_PAUSE))
            self._starts += 1
            try:
                return await self._start(self._spec, self._save_every)
            except (TacitaError, OSError) as error:
                log.error("worker of %s: %s", self._spec.name, error)
