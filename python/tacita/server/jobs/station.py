"""One lane: whose jobs wait, which ones run, and where: one post on this machine, or one on each of many.

Everything happens in the event loop's thread, between two of its turns; a job waits, runs or is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tacita.errors import InputError, PeerError, RefusedError
from tacita.server.jobs.post import Post, Running
from tacita.server.jobs.queue import DEADLINE, WORKER, Deadlines, Job, Lane, Turns, Watcher
from tacita.server.jobs.worker import Start
from tacita.server.workers.messages import Done, Failed, Passed, Stopped, Told
from tacita.two_party.protocol.refusal import Reason

CANCELLED, DRAINED = "cancelled", "drained"
LEAST_SHARE = 2  # jobs that a client may have waiting, however many clients there are
GRACE = 5.0  # seconds that a job has to reach its next stage before its process is ended

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """Limits of one lane. waiting: jobs that may wait beside those that run. attempts: workers that may end
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


class Station:
    """The workers of a lane and the queue of its jobs. starts: how a worker starts, by its place."""

    def __init__(
        self,
        lane: Lane,
        watcher: Watcher,
        limits: Limits,
        starts: Mapping[str, Start],
        clock: Callable[[], float],
    ) -> None:
        self._lane, self._watcher, self._limits = lane, watcher, limits
        self._deadlines = Deadlines(clock, self._overdue)
        self._turns, self._jobs, self._deaths = Turns[str](), dict[str, Job](), Counter[str]()
        self._posts = {name: self._post(start) for name, start in starts.items()}
        self._leaving = list[Post]()
        self._opened, self._draining, self._unfinished = False, False, list[str]()

    @property
    def pids(self) -> list[int]:
        """Returns the process ids of its workers that are there."""
        return [post.pid for post in self._posts.values() if post.pid is not None]

    @property
    def resident(self) -> int:
        """Returns the number of keys in its workers' memory, as last told; shared ones count twice."""
        return sum(post.resident for post in self._posts.values())

    async def open(self) -> None:
        """Starts a worker at every post, and returns when each is ready or has failed. Posts that failed are
        tried again, unless all did. Raises as `worker.start` where there is none."""
        posts = list(self._posts.values())
        ends = await asyncio.gather(*(post.open() for post in posts), return_exceptions=True)
        failed = [end for end in ends if end is not None]
        if failed and len(failed) == len(posts):
            raise failed[0]
        self._opened = True
        for post, end in zip(posts, ends, strict=True):
            if end is not None:
                log.error("worker of %s: %s", self._lane.name, end)
                post.join()

    def spread(self, starts: Mapping[str, Start]) -> None:
        """Keeps a worker at each of these places, and nowhere else. What runs elsewhere runs again."""
        if self._draining:
            return
        for name in starts.keys() - self._posts.keys():
            self._posts[name] = self._post(starts[name])
            if self._opened:
                self._posts[name].join()
        for name in self._posts.keys() - starts.keys():
            self._leaving = [post for post in self._leaving if not post.over]
            self._leaving.append(post := self._posts.pop(name))
            post.leave()

    def submit(self, job: Job, *, resumed: bool = False) -> int:
        """Queues a job and returns its place. It starts after the caller's turn of the loop at the earliest.
        resumed: whether an earlier server accepted it, so that it is taken however many wait. Raises
        RefusedError when too many wait, in all or of this client; InputError for a job that is here
        already."""
        if job.id in self._jobs:
            raise InputError(f"job {job.id}: it is here already", hint="a job has an id of its own")
        why = "it is ending" if self._draining else None if resumed else self._crowded(job.client)
        if why:
            raise RefusedError(f"the server is busy: {why}", hint="try again later", reason=Reason.FULL)
        self._jobs[job.id] = job
        self._turns.add(job.client, job.id)
        self._deadlines.watch(job)
        asyncio.get_running_loop().call_soon(self.advance)
        return self.place(job.id) or 0

    def place(self, id: str) -> int | None:
        """Returns the number of jobs before it, those that run included where no worker waits; None when it
        does not wait."""
        before = self._turns.place(id)
        if before is None:
            return None
        idle = len(self._idle())
        return max(0, before + 1 - idle) if idle else before + len(self._running())

    def cancel(self, id: str) -> bool:
        """Cancels a job, as `Supervisor.cancel` does."""
        if self._turns.remove(id):
            self._forget(id)
            return True
        post = self._post_of(id)
        if post is None or post.running is None or post.running.ending == CANCELLED:
            return False
        post.end(post.running, CANCELLED)
        return True

    async def left(self, id: str) -> None:
        """Waits until no worker works in the job's folder, as `Supervisor.left` does."""
        if (post := self._post_of(id)) is not None and post.running is not None:
            await post.running.over.wait()

    async def drain(self, seconds: float) -> list[str]:
        """Starts no job any more and ends those that run, as `Supervisor.drain` does."""
        self._draining = True
        await asyncio.gather(*(self._drained(post, seconds) for post in self._running()))
        return [*self._unfinished, *self._turns]

    async def close(self) -> None:
        """Ends the workers, whatever they do."""
        self._draining = True
        self._deadlines.close()
        await asyncio.gather(*(post.close() for post in [*self._posts.values(), *self._leaving]))

    def heed(self, post: Post, said: Told) -> None:
        """Handles a worker's message. Raises PeerError for one that does not fit its job."""
        running = post.running
        if running is None or getattr(said, "id", None) != running.job.id:
            raise PeerError(f"it says {said.tag} of a job that it was not given", hint="use one release")
        if isinstance(said, Stopped) and not running.ending:
            raise PeerError("it stopped a job that it was to do", hint="use one release")
        post.heard()
        if isinstance(said, Passed):
            self._passed(post, running, said)
        elif isinstance(said, Done | Failed | Stopped):
            self._ended(post, running, said)

    def died(self, post: Post, running: Running | None) -> bool:
        """Requeues or fails the job of a worker that ended. Returns whether another is wanted."""
        if running is not None:
            self._bereft(running)
        self.advance()
        return not (post.leaving or self._draining)

    def advance(self) -> None:
        """Gives each worker that waits its next job: to one that has its keys, if one of them has."""
        while not self._draining and (idle := self._idle()) and (id := self._turns.take()):
            job = self._jobs[id]
            if self._deadlines.passed(job):
                self._late(job, "while it waited")
                continue
            key = job.key_id
            min(idle, key=lambda post: (key not in post.given, len(post.given))).give(job)
            self._tell(self._watcher.started, id)

    def _crowded(self, client: str) -> str | None:
        """Returns why no further job of this client may wait, if none may."""
        own, room = self._turns.of(client), self._limits.waiting
        room += sum(post.running is None for post in self._posts.values())
        if len(self._turns) >= room:
            return f"{len(self._turns)} requests wait"
        most = share(room, self._turns.clients - bool(own))
        return f"{own} requests of this client wait, its share of {room}" if own >= most else None

    def _post(self, start: Start) -> Post:
        return Post(self._lane, self._limits.save_every, start, self)

    def _idle(self) -> list[Post]:
        return [post for post in self._posts.values() if post.idle]

    def _running(self) -> list[Post]:
        posts = [*self._posts.values(), *self._leaving]
        return [post for post in posts if post.running is not None]

    def _post_of(self, id: str) -> Post | None:
        """Returns the post where the job runs."""
        posts = (post for post in self._running() if post.running and post.running.job.id == id)
        return next(posts, None)

    async def _drained(self, post: Post, seconds: float) -> None:
        running = post.running
        assert running is not None  # nothing has happened since it was found to run
        await _until(running.over, seconds)
        if not running.over.is_set():
            post.end(running, running.ending or DRAINED)
            await _until(running.over, GRACE)
        if not running.over.is_set():
            post.kill()
            await running.over.wait()

    def _passed(self, post: Post, running: Running, said: Passed) -> None:
        if running.ending:
            return
        self._tell(self._watcher.progressed, said.id, said.progress)
        if self._deadlines.passed(running.job):
            self._overdue(running.job)

    def _ended(self, post: Post, running: Running, said: Done | Failed | Stopped) -> None:
        post.resident = said.resident
        post.release()
        if running.ending == CANCELLED:
            self._forget(said.id)
        elif isinstance(said, Done):
            self._forget(said.id)
            self._tell(self._watcher.finished, said.id, said.seconds, said.figures)
        elif isinstance(said, Failed):
            self._fail(said.id, said.code, said.detail, said.hint)
        else:
            self._broken_off(running)
        self.advance()

    def _bereft(self, running: Running) -> None:
        """Requeues a job that lost its worker, or fails it after `attempts` lost workers."""
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
        """Forgets a job whose evaluation was ended on purpose; fails it where its deadline was the reason."""
        if running.ending == DEADLINE:
            return self._late(running.job, "while it was evaluated")
        self._forget(running.job.id)
        if running.ending != CANCELLED:
            self._unfinished.append(running.job.id)

    def _overdue(self, job: Job) -> None:
        if self._turns.remove(job.id):
            self._late(job, "while it waited")
        elif (post := self._post_of(job.id)) is not None and post.running is not None:
            post.end(post.running, post.running.ending or DEADLINE)

    def _late(self, job: Job, when: str) -> None:
        self._fail(job.id, DEADLINE, f"its deadline passed {when}", "allow it more time")

    def _fail(self, id: str, code: str, detail: str, hint: str) -> None:
        self._forget(id)
        self._tell(self._watcher.failed, id, code, detail, hint)

    def _forget(self, id: str) -> None:
        del self._jobs[id], self._deaths[id]
        self._deadlines.forget(id)

    def _tell(self, event: Callable[..., None], id: str, *said: Any) -> None:
        """Calls the watcher. An error there is logged, and is not one of the lane."""
        try:
            event(id, *said)
        except Exception as error:
            log.error("job %s: nobody took note (%s)", id, type(error).__name__)


async def _until(event: asyncio.Event, seconds: float) -> None:
    """Waits for an event, so many seconds at most."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
