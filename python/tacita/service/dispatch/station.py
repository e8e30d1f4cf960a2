"""One lane: whose jobs wait, which one runs, and the worker process, replaced when it dies.

Everything happens in the event loop's thread, between two of its turns; a job waits, runs or is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tacita.errors import InputError, PeerError, RefusedError, TacitaError
from tacita.protocol.refusal import Reason
from tacita.service.dispatch.base import DEADLINE, WORKER, Job, Lane, Watcher
from tacita.service.dispatch.deadlines import Deadlines
from tacita.service.dispatch.turns import Turns
from tacita.service.dispatch.worker import Start, Worker
from tacita.service.workers.messages import Done, Evaluate, Failed, Passed, Stop, Stopped, Told

CANCELLED, DRAINED = "cancelled", "drained"
GRACE = 5.0  # seconds that a job has to reach its next stage before its process is ended
LONGEST_PAUSE = 60.0  # seconds between two starts of a worker that does not stay

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """waiting: jobs that may wait beside the one that runs. attempts: workers that may end under one job.
    save_every: seconds between resume points, 0 for one after each stage."""

    waiting: int
    attempts: int
    save_every: float


@dataclass
class Running:
    """The job that a worker has. ending: why it was told to stop: "" (it was not), DEADLINE, CANCELLED,
    DRAINED. over: set when no process works in its folder any more."""

    job: Job
    ending: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Station:
    """See the module's docstring. resident: keys in the worker's memory, as last told. pid: of the worker,
    None while there is none."""

    def __init__(
        self, lane: Lane, watcher: Watcher, limits: Limits, start: Start, clock: Callable[[], float]
    ) -> None:
        self._lane, self._watcher, self._limits, self._start = lane, watcher, limits, start
        self._deadlines = Deadlines(clock, self._overdue)
        self._turns, self._jobs, self._deaths = Turns[str](), dict[str, Job](), Counter[str]()
        self._running: Running | None = None
        self._worker: Worker | None = None
        self._life: asyncio.Task[None] | None = None
        self._starts, self._draining, self._unfinished = 0, False, list[str]()
        self.resident = 0

    @property
    def pid(self) -> int | None:
        return None if self._worker is None else self._worker.pid

    async def open(self) -> None:
        """Has its worker ready. Raises as `worker.start`."""
        self._worker = await self._start(self._lane, self._limits.save_every)
        self._life = asyncio.create_task(self._live(self._worker))

    def submit(self, job: Job) -> int:
        """The job's place. It starts after the caller's turn of the loop at the earliest. Raises RefusedError
        when too many wait, InputError for a job that is here already."""
        if job.id in self._jobs:
            raise InputError(f"job {job.id}: it is here already", hint="a job has an id of its own")
        if self._draining or len(self._turns) >= self._limits.waiting + (self._running is None):
            why = "it is ending" if self._draining else f"{len(self._turns)} requests wait"
            raise RefusedError(f"the server is busy: {why}", hint="try again later", reason=Reason.FULL)
        self._jobs[job.id] = job
        self._turns.add(job.client, job.id)
        self._deadlines.watch(job)
        asyncio.get_running_loop().call_soon(self._advance)
        return self.place(job.id) or 0

    def place(self, id: str) -> int | None:
        """Jobs before it, the one that runs included; None when it does not wait."""
        before = self._turns.place(id)
        return None if before is None else before + (self._running is not None)

    def cancel(self, id: str) -> bool:
        """See `Supervisor.cancel`."""
        if self._turns.remove(id):
            self._forget(id)
            return True
        if (running := self._running) is None or running.job.id != id or running.ending == CANCELLED:
            return False
        self._end(running, CANCELLED)
        return True

    async def left(self, id: str) -> None:
        """See `Supervisor.left`."""
        if self._running is not None and self._running.job.id == id:
            await self._running.over.wait()

    async def drain(self, seconds: float) -> list[str]:
        """See `Supervisor.drain`."""
        self._draining = True
        if running := self._running:
            await _until(running.over, seconds)
            if not running.over.is_set():
                self._end(running, running.ending or DRAINED)
                await _until(running.over, GRACE)
            if not running.over.is_set() and self._worker is not None:
                self._worker.kill()
                await running.over.wait()
        return [*self._unfinished, *self._turns]

    async def close(self) -> None:
        """Ends the worker, whatever it does."""
        self._draining = True
        self._deadlines.close()
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
        if self._worker is not None:
            await self._worker.end()
            self._worker = None
        if self._running is not None:
            self._release(self._running)

    async def _live(self, worker: Worker) -> None:
        """Hears this worker and those that replace it."""
        while True:
            await self._hear(worker)
            self._died()
            if self._draining:
                return
            worker = self._worker = await self._replaced()
            self._advance()

    async def _hear(self, worker: Worker) -> None:
        """Until it is no more."""
        try:
            while (said := await worker.hear()) is not None:
                self._heed(said)
        except PeerError as error:
            log.error("worker %d of %s: %s", worker.pid, self._lane.name, error)
        await worker.end()
        log.warning("worker %d of %s has ended", worker.pid, self._lane.name)

    async def _replaced(self) -> Worker:
        """At once; after a pause when the one before did no stage."""
        while True:
            await asyncio.sleep(min(2.0 ** min(self._starts, 10) - 1, LONGEST_PAUSE))
            self._starts += 1
            try:
                return await self._start(self._lane, self._limits.save_every)
            except (TacitaError, OSError) as error:
                log.error("worker of %s: %s", self._lane.name, error)

    def _advance(self) -> None:
        """Gives the worker its next job, if it has none."""
        while self._worker and not self._running and not self._draining and (id := self._turns.take()):
            job = self._jobs[id]
            if self._deadlines.passed(job):
                self._late(job, "while it waited")
                continue
            self._running = Running(job)
            keys, folder = str(job.keys.absolute()), str(job.folder.absolute())
            self._worker.send(Evaluate(id, job.key_id, keys, folder))
            self._tell(self._watcher.started, id)

    def _heed(self, said: Told) -> None:
        """Raises PeerError for what no job that runs can have caused."""
        running = self._running
        if running is None or getattr(said, "id", None) != running.job.id:
            raise PeerError(f"it says {said.tag} of a job that it was not given", hint="use one release")
        if isinstance(said, Stopped) and not running.ending:
            raise PeerError("it stopped a job that it was to do", hint="use one release")
        self._starts = 0
        if isinstance(said, Passed):
            self._passed(running, said)
        elif isinstance(said, Done | Failed | Stopped):
            self._ended(running, said)

    def _passed(self, running: Running, said: Passed) -> None:
        if running.ending:
            return
        self._tell(self._watcher.progressed, said.id, said.progress)
        if self._deadlines.passed(running.job):
            self._overdue(running.job)

    def _ended(self, running: Running, said: Done | Failed | Stopped) -> None:
        self.resident = said.resident
        self._release(running)
        if running.ending == CANCELLED:
            self._forget(said.id)
        elif isinstance(said, Done):
            self._forget(said.id)
            self._tell(self._watcher.finished, said.id, said.seconds, said.figures)
        elif isinstance(said, Failed):
            self._fail(said.id, said.code, said.detail, said.hint)
        else:
            self._broken_off(running)
        self._advance()

    def _died(self) -> None:
        """The worker is no more, with the job that it had."""
        self._worker, self.resident = None, 0
        if (running := self._running) is None:
            return
        self._release(running)
        if running.ending or self._draining:
            return self._broken_off(running)
        id = running.job.id
        self._deaths[id] += 1
        if self._deaths[id] < self._limits.attempts:
            self._turns.put_back(running.job.client, id)
            self._tell(self._watcher.requeued, id)
        else:
            why = f"{self._deaths[id]} worker processes ended during its evaluation"
            self._fail(id, WORKER, why, "ask the server's operator")

    def _broken_off(self, running: Running) -> None:
        """Its evaluation was ended before it was done, as was wanted."""
        if running.ending == DEADLINE:
            return self._late(running.job, "while it was evaluated")
        self._forget(running.job.id)
        if running.ending != CANCELLED:
            self._unfinished.append(running.job.id)

    def _overdue(self, job: Job) -> None:
        if self._turns.remove(job.id):
            self._late(job, "while it waited")
        elif self._running is not None and self._running.job.id == job.id:
            self._end(self._running, self._running.ending or DEADLINE)

    def _late(self, job: Job, when: str) -> None:
        self._fail(job.id, DEADLINE, f"its deadline passed {when}", "allow it more time")

    def _fail(self, id: str, code: str, detail: str, hint: str) -> None:
        self._forget(id)
        self._tell(self._watcher.failed, id, code, detail, hint)

    def _end(self, running: Running, why: str) -> None:
        """Before its next stage."""
        running.ending = why
        if self._worker is not None:
            self._worker.send(Stop(running.job.id))

    def _release(self, running: Running) -> None:
        self._running = None
        running.over.set()

    def _forget(self, id: str) -> None:
        del self._jobs[id], self._deaths[id]
        self._deadlines.forget(id)

    def _tell(self, event: Callable[..., None], id: str, *said: Any) -> None:
        """A defect of who watches is not one of the lane."""
        try:
            event(id, *said)
        except Exception as error:
            log.error("job %s: nobody took note (%s)", id, type(error).__name__)


async def _until(event: asyncio.Event, seconds: float) -> None:
    """Waits so long at most."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
