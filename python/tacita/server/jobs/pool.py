"""The jobs of one queue: which wait, which run, and where: one slot on this machine, or one on each of many.

Everything happens in the event loop's thread, between two of its turns; a job waits, runs or is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tacita.errors import InputError, PeerError, RefusedError
from tacita.server.jobs.messages import Done, Failed, Passed, Reply, Stopped
from tacita.server.jobs.queue import DEADLINE, WORKER, Deadlines, FairQueue, Job, JobListener, WorkerSpec
from tacita.server.jobs.slot import Running, WorkerSlot
from tacita.server.jobs.worker import Start
from tacita.two_party.protocol.refusal import Reason

CANCELLED, DRAINED = "cancelled", "drained"
LEAST_SHARE = 2  # jobs that a client may have waiting, however many clients there are
GRACE = 5.0  # seconds that a job has to reach its next stage before its process is ended

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """Limits of one queue. waiting: jobs that may wait beside those that run. attempts: workers that may end
    under one job. save_every: seconds between resume points, 0 for one after each stage."""

    waiting: int
    attempts: int
    save_every: float


def share(room: int, others: int) -> int:
    """Returns how many jobs one client may have waiting, of a queue for `room` beside so many other clients
    that wait: as many as would be left for one more client, were all shares equal.

    >>> [share(64, others) for others in (0, 1, 2, 100)]
    [32, 21, 16, 2]
    """
    return max(LEAST_SHARE, room // (others + 2))


class WorkerPool:
    """The workers of one plan and the queue of its jobs. starts: how a worker starts, by its place."""

    def __init__(
        self,
        spec: WorkerSpec,
        listener: JobListener,
        limits: Limits,
        starts: Mapping[str, Start],
        clock: Callable[[], float],
    ) -> None:
        self._spec, self._listener, self._limits = spec, listener, limits
        self._deadlines = Deadlines(clock, self._overdue)
        self._queue, self._jobs, self._deaths = FairQueue[str](), dict[str, Job](), Counter[str]()
        self._slots = {name: self._slot(start) for name, start in starts.items()}
        self._leaving = list[WorkerSlot]()
        self._opened, self._draining, self._unfinished = False, False, list[str]()

    @property
    def pids(self) -> list[int]:
        """Returns the process ids of its workers that are there."""
        return [slot.pid for slot in self._slots.values() if slot.pid is not None]

    @property
    def resident(self) -> int:
        """Returns the number of keys in its workers' memory, as last told; shared ones count twice."""
        return sum(slot.resident for slot in self._slots.values())

    async def open(self) -> None:
        """Starts a worker at every slot, and returns when each is ready or has failed. Slots that failed are
        tried again, unless all did. Raises as `worker.start` where there is none."""
        slots = list(self._slots.values())
        ends = await asyncio.gather(*(slot.worker.open() for slot in slots), return_exceptions=True)
        failed = [end for end in ends if end is not None]
        if failed and len(failed) == len(slots):
            raise failed[0]
        self._opened = True
        for slot, end in zip(slots, ends, strict=True):
            if end is not None:
                log.error("worker of %s: %s", self._spec.name, end)
                slot.worker.join()

    def spread(self, starts: Mapping[str, Start]) -> None:
        """Keeps a worker at each of these places, and nowhere else. What runs elsewhere runs again."""
        if self._draining:
            return
        for name in starts.keys() - self._slots.keys():
            self._slots[name] = self._slot(starts[name])
            if self._opened:
                self._slots[name].worker.join()
        for name in self._slots.keys() - starts.keys():
            self._leaving = [slot for slot in self._leaving if not slot.worker.over]
            self._leaving.append(slot := self._slots.pop(name))
            slot.leave()

    def submit(self, job: Job, *, resumed: bool = False) -> int:
        """Queues a job and returns its place. It starts after the caller's turn of the loop at the earliest.
        resumed: whether an earlier server accepted it, so that it is taken however many wait. Raises
        RefusedError when too many wait, in all or of this client; InputError for a job that is here
        already."""
        if job.id in self._jobs:
            raise InputError(f"job {job.id}: it is here already", hint="a job has an id of its own")
        why = "it is ending" if self._draining else None if resumed else self._refusal(job.client)
        if why:
            raise RefusedError(f"the server is busy: {why}", hint="try again later", reason=Reason.FULL)
        self._jobs[job.id] = job
        self._queue.add(job.client, job.id)
        self._deadlines.watch(job)
        asyncio.get_running_loop().call_soon(self._advance)
        return self.place(job.id) or 0

    def place(self, id: str) -> int | None:
        """Returns the number of jobs before it, those that run included where no worker waits; None when it
        does not wait."""
        before = self._queue.place(id)
        if before is None:
            return None
        idle = len(self._idle())
        return max(0, before + 1 - idle) if idle else before + len(self._running())

    def cancel(self, id: str) -> bool:
        """Cancels a job, as `PoolManager.cancel` does."""
        if self._queue.remove(id):
            self._forget(id)
            return True
        slot = self._slot_of(id)
        if slot is None or slot.running is None or slot.running.ending == CANCELLED:
            return False
        slot.end(slot.running, CANCELLED)
        return True

    async def wait_ended(self, id: str) -> None:
        """Waits until no worker works in the job's folder, as `PoolManager.wait_ended` does."""
        if (slot := self._slot_of(id)) is not None and slot.running is not None:
            await slot.running.over.wait()

    async def drain(self, seconds: float) -> list[str]:
        """Starts no job any more and ends those that run, as `PoolManager.drain` does."""
        self._draining = True
        await asyncio.gather(*(self._drain_slot(slot, seconds) for slot in self._running()))
        return [*self._unfinished, *self._queue]

    async def close(self) -> None:
        """Ends the workers, whatever they do."""
        self._draining = True
        self._deadlines.close()
        await asyncio.gather(*(slot.close() for slot in [*self._slots.values(), *self._leaving]))

    def _on_message(self, slot: WorkerSlot, message: Reply) -> None:
        """Handles a worker's message. Raises PeerError for one that does not fit its job."""
        running = slot.running
        if running is None or getattr(message, "id", None) != running.job.id:
            raise PeerError(f"it says {message.tag} of a job that it was not given", hint="use one release")
        if isinstance(message, Stopped) and not running.ending:
            raise PeerError("it stopped a job that it was to do", hint="use one release")
        slot.worker.mark_working()
        if isinstance(message, Passed):
            self._on_progress(slot, running, message)
        elif isinstance(message, Done | Failed | Stopped):
            self._on_answer(slot, running, message)

    def _on_worker_exit(self, running: Running | None) -> bool:
        """Requeues or fails the job of a worker that ended. Returns whether another is wanted."""
        if running is not None:
            self._on_worker_lost(running)
        self._advance()
        return not self._draining

    def _advance(self) -> None:
        """Gives each worker that waits its next job: to one that has its keys, if one of them has."""
        while not self._draining and (idle := self._idle()) and (id := self._queue.take()):
            job = self._jobs[id]
            if self._deadlines.passed(job):
                self._fail_late(job, "while it waited")
                continue
            key = job.key_id
            min(idle, key=lambda slot: (key not in slot.sent_keys, len(slot.sent_keys))).give(job)
            self._notify(self._listener.started, id)

    def _refusal(self, client: str) -> str | None:
        """Returns why no further job of this client may wait, if none may."""
        own, room = self._queue.of(client), self._limits.waiting
        room += sum(slot.running is None for slot in self._slots.values())
        if len(self._queue) >= room:
            return f"{len(self._queue)} requests wait"
        most = share(room, self._queue.clients - bool(own))
        return f"{own} requests of this client wait, its share of {room}" if own >= most else None

    def _slot(self, start: Start) -> WorkerSlot:
        name, worker = f"worker of {self._spec.name}", partial(start, self._spec, self._limits.save_every)
        return WorkerSlot(name, worker, self._on_message, self._on_worker_exit, self._advance)

    def _idle(self) -> list[WorkerSlot]:
        return [slot for slot in self._slots.values() if slot.idle]

    def _running(self) -> list[WorkerSlot]:
        slots = [*self._slots.values(), *self._leaving]
        return [slot for slot in slots if slot.running is not None]

    def _slot_of(self, id: str) -> WorkerSlot | None:
        """Returns the slot where the job runs."""
        slots = (slot for slot in self._running() if slot.running and slot.running.job.id == id)
        return next(slots, None)

    async def _drain_slot(self, slot: WorkerSlot, seconds: float) -> None:
        running = slot.running
        assert running is not None  # nothing has happened since it was found to run
        await _until(running.over, seconds)
        if not running.over.is_set():
            slot.end(running, running.ending or DRAINED)
            await _until(running.over, GRACE)
        if not running.over.is_set():
            slot.worker.kill()
            await running.over.wait()

    def _on_progress(self, slot: WorkerSlot, running: Running, message: Passed) -> None:
        if running.ending:
            return
        self._notify(self._listener.progressed, message.id, message.progress)
        if self._deadlines.passed(running.job):
            self._overdue(running.job)

    def _on_answer(self, slot: WorkerSlot, running: Running, message: Done | Failed | Stopped) -> None:
        slot.resident = message.resident
        slot.release()
        if running.ending == CANCELLED:
            self._forget(message.id)
        elif isinstance(message, Done):
            self._forget(message.id)
            self._notify(self._listener.finished, message.id, message.seconds, message.figures)
        elif isinstance(message, Failed):
            self._fail(message.id, message.code, message.detail, message.hint)
        else:
            self._on_stopped(running)
        self._advance()

    def _on_worker_lost(self, running: Running) -> None:
        """Requeues a job that lost its worker, or fails it after `attempts` lost workers."""
        if running.ending or self._draining:
            return self._on_stopped(running)
        id = running.job.id
        self._deaths[id] += 1
        if self._deaths[id] < self._limits.attempts:
            self._queue.put_back(running.job.client, id)
            self._notify(self._listener.requeued, id)
        else:
            why = f"{self._deaths[id]} worker processes ended during its evaluation"
            self._fail(id, WORKER, why, "ask the server's operator")

    def _on_stopped(self, running: Running) -> None:
        """Forgets a job whose evaluation was ended on purpose; fails it where its deadline was the reason."""
        if running.ending == DEADLINE:
            return self._fail_late(running.job, "while it was evaluated")
        self._forget(running.job.id)
        if running.ending != CANCELLED:
            self._unfinished.append(running.job.id)

    def _overdue(self, job: Job) -> None:
        if self._queue.remove(job.id):
            self._fail_late(job, "while it waited")
        elif (slot := self._slot_of(job.id)) is not None and slot.running is not None:
            slot.end(slot.running, slot.running.ending or DEADLINE)

    def _fail_late(self, job: Job, when: str) -> None:
        self._fail(job.id, DEADLINE, f"its deadline passed {when}", "allow it more time")

    def _fail(self, id: str, code: str, detail: str, hint: str) -> None:
        self._forget(id)
        self._notify(self._listener.failed, id, code, detail, hint)

    def _forget(self, id: str) -> None:
        del self._jobs[id], self._deaths[id]
        self._deadlines.forget(id)

    def _notify(self, event: Callable[..., None], id: str, *arguments: Any) -> None:
        """Calls the listener. An error there is logged, and is not one of the pool."""
        try:
            event(id, *arguments)
        except Exception as error:
            log.error("job %s: nobody took note (%s)", id, type(error).__name__)


async def _until(event: asyncio.Event, seconds: float) -> None:
    """Waits for an event, so many seconds at most."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
