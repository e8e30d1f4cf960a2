"""The jobs of one plan: which wait, which run, and where: one worker on this machine, or one on each of many.

Everything happens in the event loop's thread, between two of its turns; a job waits, runs or is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tacita.errors import InputError, PeerError, RefusedError
from tacita.plans.wire import State
from tacita.server.child import Message, Supervisor, set_within
from tacita.server.jobs.messages import (
    DEADLINE,
    STUCK,
    WORKER,
    Done,
    Evaluate,
    Failed,
    Passed,
    Reply,
    Stop,
    Stopped,
    WorkerSpec,
)
from tacita.server.jobs.queue import FairQueue, share
from tacita.server.jobs.worker import Start, start
from tacita.two_party.protocol.refusal import Reason

CANCELLED, DRAINED = "cancelled", "drained"
GRACE = 5.0  # seconds that a job has to reach its next stage before its process is ended
# A job is stuck after PACE times its stage's planned seconds and PAUSE more: a plan priced on 16 cores takes
# 16 times as long on one, and 100 GB of keys before a stage, or resume points behind it, 500 s at 200 MB/s.
PACE, PAUSE = 50.0, 1800.0
HERE = "here"  # the one place of a service of one machine
Event = Passed | Done | Failed | State
# Is told how a job goes, by its id: `running` when a worker has it, again after `waiting`: its worker ended,
# it is its client's next, and resumes. Each job ends with Done or Failed, or was cancelled or left behind by
# `drain`, which its caller knows.
Listener = Callable[[str, Event], None]

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Job:
    """A request that was accepted. client: whose turn it takes, and whose share of the queue. deadline: unix
    seconds, after which it fails.

    losses: workers that ended under it. ending: why its worker was told to stop, if it was. over: set when no
    process works in its folder any more.
    """

    order: Evaluate
    client: str
    deadline: float | None = None
    losses: int = field(default=0, init=False)
    ending: str = field(default="", init=False)
    over: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    timer: asyncio.TimerHandle | None = field(default=None, init=False)

    @property
    def id(self) -> str:
        return self.order.id


class WorkerSlot(Supervisor):
    """A place for a worker of a pool: the child that is there, and the job that it has. left: seconds until
    that is stuck, if no more is heard of it. resident: keys in the worker's memory, as last told. sent_keys:
    ids of keys that it was asked to use, and may have in memory."""

    def __init__(self, pool: WorkerPool, start: Start) -> None:
        name, on_message = f"worker of {pool.spec.name}", partial(pool.on_message, self)
        super().__init__(name, partial(start, pool.spec), on_message, self._on_end, pool.advance)
        self._pool = pool
        self.job: Job | None = None
        self.left, self.resident, self.sent_keys = PAUSE, 0, set[str]()

    @property
    def idle(self) -> bool:
        return self.child is not None and self.job is None and not self.leaving

    def give(self, job: Job) -> None:
        self.job, job.ending, self.left = job, "", PAUSE
        job.over.clear()
        self.sent_keys.add(job.order.key_id)
        self._send(job.order)

    def end(self, job: Job, why: str) -> None:
        """Tells the worker to end its job before the next stage."""
        job.ending = why
        self._send(Stop(job.id))

    def release(self) -> Job | None:
        """Takes the job from the worker, and returns it."""
        job, self.job = self.job, None
        if job is not None:
            job.over.set()
        return job

    async def close(self, seconds: float | None = None) -> None:
        await super().close(seconds)
        self.release()

    def _send(self, order: Message) -> None:
        try:
            if self.child is not None:
                self.child.send(order)
        except OSError:  # it is gone, or reads nothing
            self.kill()

    def _on_end(self) -> bool:
        self.resident = 0
        self.sent_keys.clear()
        return self._pool.on_worker_exit(self.release())


class WorkerPool:
    """The workers of one plan, each with one job at a time, and the queue of its jobs, which is fair to
    clients.

    waiting: jobs that may wait beside those that run, shared by client. clock: unix seconds, for deadlines.
    planned: seconds of each stage. attempts: workers that may end under a job before it fails. start: of the
    one worker, here, unless `spread` says otherwise. Call everything in the event loop's thread, which has to
    live as long as the service: workers end with it.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        listener: Listener,
        *,
        waiting: int,
        clock: Callable[[], float],
        planned: Sequence[float] = (),
        attempts: int = 3,
        start: Start = start,
    ) -> None:
        self.spec, self._listener, self._clock = spec, listener, clock
        self._waiting, self._attempts, self._planned = waiting, attempts, dict(enumerate(planned))
        self._queue, self._jobs = FairQueue[str](), dict[str, Job]()
        self._slots = {HERE: WorkerSlot(self, start)}
        self._leaving = list[WorkerSlot]()
        self._opened, self._draining, self._unfinished = False, False, list[str]()
        self.ends = 0  # of workers, but for those that were asked to end

    @property
    def pids(self) -> list[int]:
        """Returns the process ids of its workers that are there."""
        return [slot.child.pid for slot in self._slots.values() if slot.child is not None]

    @property
    def resident(self) -> int:
        """Returns the number of keys in its workers' memory, as last told; shared ones count twice."""
        return sum(slot.resident for slot in self._slots.values())

    async def open(self) -> None:
        """Starts a worker at every slot, and returns when each is ready or has failed. Slots that failed are
        tried again, unless all did. Cost: the loading of the model. Raises as `worker.start` where there is
        none."""
        slots = list(self._slots.values())
        ends = await asyncio.gather(*(slot.open() for slot in slots), return_exceptions=True)
        failed = [end for end in ends if end is not None]
        if failed and len(failed) == len(slots):
            raise failed[0]
        self._opened = True
        for slot, end in zip(slots, ends, strict=True):
            if end is not None:
                log.error("worker of %s: %s", self.spec.name, end)
                slot.join()

    def spread(self, starts: Mapping[str, Start]) -> None:
        """Keeps from now on a worker at each of these places, and nowhere else; may be called before `open`.
        What runs at a place that is no more runs again at another."""
        if self._draining:
            return
        for name in starts.keys() - self._slots.keys():
            self._slots[name] = WorkerSlot(self, starts[name])
            if self._opened:
                self._slots[name].join()
        for name in self._slots.keys() - starts.keys():
            self._leaving = [slot for slot in self._leaving if not slot.over]
            self._leaving.append(slot := self._slots.pop(name))
            slot.leave()

    def submit(self, job: Job, *, resumed: bool = False) -> int:
        """Queues a job and returns its place: the jobs before it, those that run included. It starts, and the
        listener hears of it, after the caller's turn of the loop at the earliest. resumed: whether an earlier
        server accepted it, so that it is taken however many wait. Raises RefusedError when too many wait, in
        all or of this client, or the service is ending; InputError for a job that is here already."""
        if job.id in self._jobs:
            raise InputError(f"job {job.id}: it is here already", hint="a job has an id of its own")
        why = "it is ending" if self._draining else None if resumed else self._refusal(job.client)
        if why:
            raise RefusedError(f"the server is busy: {why}", hint="try again later", reason=Reason.FULL)
        self._jobs[job.id] = job
        self._queue.add(job.client, job.id)
        loop = asyncio.get_running_loop()
        if job.deadline is not None:
            job.timer = loop.call_later(max(0.0, job.deadline - self._clock()), self._overdue, job)
        loop.call_soon(self.advance)
        return self.place(job.id) or 0

    def place(self, id: str) -> int | None:
        """Returns the number of jobs before one that waits, if nobody comes or goes, those that run included
        where no worker waits; None for any other."""
        before = self._queue.place(id)
        if before is None:
            return None
        idle = len(self._idle())
        return max(0, before + 1 - idle) if idle else before + len(self._running())

    def cancel(self, id: str) -> bool:
        """Cancels a job. Returns whether it was there. One that waits is gone, one that runs ends before its
        next stage, of which `wait_ended` tells; keys stay, and the listener hears no more of it."""
        if self._queue.remove(id):
            self._forget(self._jobs[id])
            return True
        slot = self._slot_of(id)
        if slot is None or slot.job is None or slot.job.ending == CANCELLED:
            return False
        slot.end(slot.job, CANCELLED)
        return True

    def look(self, seconds: float) -> None:
        """Ends the processes of jobs that are stuck, which fail. seconds: since the last look; those in which
        the service did not run do not count, as its workers may not have run either."""
        for slot in self._running():
            slot.left -= seconds
            if slot.left < 0 and slot.job is not None:
                slot.job.ending = slot.job.ending or STUCK
                log.error("job %s: nothing is heard of it any more, its worker is ended", slot.job.id)
                slot.kill()

    def works(self, id: str) -> bool:
        """Returns whether a worker works in the job's folder, also where it was told to end."""
        return self._slot_of(id) is not None

    async def wait_ended(self, id: str) -> None:
        """Waits until no worker works in the job's folder: at once, but for a job that runs."""
        if (slot := self._slot_of(id)) is not None and slot.job is not None:
            await slot.job.over.wait()

    async def drain(self, seconds: float) -> list[str]:
        """Starts no job from now on. Those that run may end within `seconds`, then they are ended at their
        next stage, or with their process; resume points stay. Returns the ids of jobs that are not done, in
        the order in which they would have been: submitted again after a restart, they go on."""
        self._draining = True
        await asyncio.gather(*(self._drain_slot(slot, seconds) for slot in self._running()))
        return [*self._unfinished, *self._queue]

    async def close(self) -> None:
        """Ends the workers, whatever they do."""
        self._draining = True
        for job in self._jobs.values():
            _stop_timer(job)
        await asyncio.gather(*(slot.close() for slot in [*self._slots.values(), *self._leaving]))

    def on_message(self, slot: WorkerSlot, message: Reply) -> None:
        """Handles a worker's message. Raises PeerError for one that does not fit its job."""
        job = slot.job
        if job is None or getattr(message, "id", None) != job.id:
            raise PeerError(f"it says {message.tag} of a job that it was not given", hint="use one release")
        if isinstance(message, Stopped) and not job.ending:
            raise PeerError("it stopped a job that it was to do", hint="use one release")
        slot.starts = 0
        if not isinstance(message, Passed):
            return self._on_answer(slot, job, message)
        slot.left = PAUSE + PACE * self._planned.get(message.progress.index, 0.0)
        if not job.ending:
            self._notify(job, message)

    def on_worker_exit(self, job: Job | None) -> bool:
        """Requeues or fails the job of a worker that ended. Returns whether another is wanted."""
        self.ends += not self._draining
        if job is not None:
            self._on_worker_lost(job)
        self.advance()
        return not self._draining

    def advance(self) -> None:
        """Gives each worker that waits its next job: to one that has its keys, if one of them has."""
        while not self._draining and (idle := self._idle()) and (id := self._queue.take()):
            job = self._jobs[id]
            if job.deadline is not None and self._clock() >= job.deadline:
                self._fail_late(job, "while it waited")
                continue
            key = job.order.key_id
            min(idle, key=lambda slot: (key not in slot.sent_keys, len(slot.sent_keys))).give(job)
            self._notify(job, State.running)

    def _refusal(self, client: str) -> str | None:
        """Returns why no further job of this client may wait, if none may."""
        own, room = self._queue.of(client), self._waiting
        room += sum(slot.job is None for slot in self._slots.values())
        if len(self._queue) >= room:
            return f"{len(self._queue)} requests wait"
        most = share(room, self._queue.clients - bool(own))
        return f"{own} requests of this client wait, its share of {room}" if own >= most else None

    def _idle(self) -> list[WorkerSlot]:
        return [slot for slot in self._slots.values() if slot.idle]

    def _running(self) -> list[WorkerSlot]:
        return [slot for slot in [*self._slots.values(), *self._leaving] if slot.job is not None]

    def _slot_of(self, id: str) -> WorkerSlot | None:
        return next((slot for slot in self._running() if slot.job and slot.job.id == id), None)

    async def _drain_slot(self, slot: WorkerSlot, seconds: float) -> None:
        job = slot.job
        assert job is not None  # nothing has happened since it was found to run
        if await set_within(job.over, seconds):
            return
        slot.end(job, job.ending or DRAINED)
        if not await set_within(job.over, GRACE):
            slot.kill()
            await job.over.wait()

    def _on_answer(self, slot: WorkerSlot, job: Job, message: Done | Failed | Stopped) -> None:
        slot.resident = message.resident
        slot.release()
        if isinstance(message, Stopped):
            self._on_stopped(job)
        else:
            self._forget(job)
            if job.ending != CANCELLED:
                self._notify(job, message)
        self.advance()

    def _on_worker_lost(self, job: Job) -> None:
        """Requeues a job that lost its worker, or fails it after `attempts` lost workers."""
        if job.ending or self._draining:
            return self._on_stopped(job)
        job.losses += 1
        if job.losses < self._attempts:
            self._queue.put_back(job.client, job.id)
            self._notify(job, State.waiting)
        else:
            why = f"{job.losses} worker processes ended during its evaluation"
            self._fail(job, WORKER, why, "ask the server's operator")

    def _on_stopped(self, job: Job) -> None:
        """Forgets a job whose evaluation was ended on purpose; fails it where its deadline was the reason, or
        that it was stuck."""
        if job.ending == DEADLINE:
            return self._fail_late(job, "while it was evaluated")
        if job.ending == STUCK:
            return self._fail(job, STUCK, "its evaluation was stuck", "ask the server's operator")
        self._forget(job)
        if job.ending != CANCELLED:
            self._unfinished.append(job.id)

    def _overdue(self, job: Job) -> None:
        if self._queue.remove(job.id):
            self._fail_late(job, "while it waited")
        elif (slot := self._slot_of(job.id)) is not None:
            slot.end(job, job.ending or DEADLINE)

    def _fail_late(self, job: Job, when: str) -> None:
        self._fail(job, DEADLINE, f"its deadline passed {when}", "allow it more time")

    def _fail(self, job: Job, code: str, detail: str, hint: str) -> None:
        self._forget(job)
        self._notify(job, Failed(job.id, code, detail, hint, 0))

    def _forget(self, job: Job) -> None:
        del self._jobs[job.id]
        _stop_timer(job)

    def _notify(self, job: Job, event: Event) -> None:
        """Calls the listener. An error there is logged, and is not one of the pool."""
        try:
            self._listener(job.id, event)
        except Exception as error:
            log.error("job %s: nobody took note (%s)", job.id, type(error).__name__)


async def open_all(pools: Collection[WorkerPool]) -> None:
    """Opens pools side by side. Raises as `WorkerPool.open` for the first that cannot: no worker is then
    left."""
    opening = [asyncio.create_task(pool.open()) for pool in pools]
    try:
        await asyncio.gather(*opening)
    except BaseException:
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in pools))
        raise


def _stop_timer(job: Job) -> None:
    if job.timer is not None:
        job.timer.cancel()
