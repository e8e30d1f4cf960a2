"""Jobs and their workers, who is told of them, whose turn it is, and when a deadline has passed.

`FairQueue` has one queue for each client, and takes one item of each in turn. It is plain data, without clock
and processes.

>>> queue = FairQueue[str]()
>>> for client, item in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("a", "a3")]:
...     queue.add(client, item)
>>> queue.place("a3")
3
>>> [queue.take() for _ in range(4)]
['a1', 'b1', 'a2', 'a3']
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tacita.progress import Progress

REFUSED, DEADLINE, WORKER, RESOURCES, INTERNAL = "refused", "deadline", "worker", "resources", "internal"


@dataclass(frozen=True)
class WorkerSpec:
    """One worker process: a plan on ciphertexts of one model.

    folder: of the model, or a name that `checkpoint.load` knows. plan: the folder with plan.json and salt.
    root: the folder below which jobs' folders and files of keys lie. threads: 0 for all cores. memory: GB,
    keys included. sha256: of the checkpoint, hex; a worker that loads another one does not start.
    """

    model: str
    scheme: str
    folder: Path
    plan: Path
    root: Path
    threads: int
    memory: float
    allow_insecure: bool
    sha256: str

    @property
    def name(self) -> tuple[str, str]:
        """Returns the name by which jobs say where they belong."""
        return self.model, self.scheme


@dataclass(frozen=True)
class Job:
    """A request that was accepted. id: of its own. client: whose turn it takes, and whose share of the queue.

    key_id: of the keys that the request must have been made with; keys: their file, complete and checked.
    folder: with request.ct; response.ct is written there, spilled ciphertexts and resume points lie there.
    deadline: unix seconds, after which it fails.
    """

    id: str
    client: str
    model: str
    scheme: str
    key_id: str
    keys: Path
    folder: Path
    deadline: float | None = None

    @property
    def queue(self) -> tuple[str, str]:
        """Returns the name of the queue that it waits in."""
        return self.model, self.scheme


class JobListener(Protocol):
    """Is told how jobs go, in the event loop's thread. Each job ends with one of `finished` and `failed`, or
    was cancelled or left behind by `drain`, which its caller knows."""

    def started(self, id: str) -> None:
        """Is called when a worker has the job; again after `requeued`."""

    def progressed(self, id: str, progress: Progress) -> None:
        """Is called before each stage, and at the end."""

    def finished(self, id: str, seconds: float, figures: Mapping[str, float]) -> None:
        """Is called when response.ct is there. seconds: since it was started last; figures: see
        `jobs.evaluator.figures`."""

    def failed(self, id: str, code: str, detail: str, hint: str) -> None:
        """Is called when the job has no response and will have none. code: REFUSED for the client's fault,
        DEADLINE, WORKER for processes that ended under it, RESOURCES for want of memory or disk, INTERNAL for
        a defect, named by its type alone."""

    def requeued(self, id: str) -> None:
        """Is called when its worker ended: it is its client's next, and resumes."""


T = TypeVar("T", bound=Hashable)
ABSENT = object()


class FairQueue(Generic[T]):
    """A fair queue of clients' items, each item once. The first client of `_queues` is next; one that was
    served goes to the end, and so does one that comes, or comes back."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str, deque[T]] = OrderedDict()
        self._client: dict[T, str] = {}

    def __len__(self) -> int:
        return len(self._client)

    def __contains__(self, item: T) -> bool:
        return item in self._client

    def of(self, client: str) -> int:
        """Returns how many items this client has."""
        return len(self._queues.get(client, ()))

    @property
    def clients(self) -> int:
        """Returns how many clients have any."""
        return len(self._queues)

    def __iter__(self) -> Iterator[T]:
        """Yields the items in the order in which `take` would give them. Cost: linear."""
        for row in zip_longest(*self._queues.values(), fillvalue=ABSENT):
            yield from (item for item in row if item is not ABSENT)  # type: ignore[misc]

    def add(self, client: str, item: T) -> None:
        """Adds an item behind the client's others. Raises ValueError for an item that waits already."""
        self._take_in(client, item).append(item)

    def put_back(self, client: str, item: T) -> None:
        """Puts an item before all others: its turn was worth nothing. Raises ValueError as `add`."""
        self._take_in(client, item).appendleft(item)
        self._queues.move_to_end(client, last=False)

    def take(self) -> T | None:
        """Removes and returns the next item; None when nobody waits."""
        if not self._queues:
            return None
        client, queue = self._queues.popitem(last=False)
        item = queue.popleft()
        del self._client[item]
        if queue:
            self._queues[client] = queue
        return item

    def remove(self, item: T) -> bool:
        """Removes an item. Returns whether it waited."""
        if (client := self._client.pop(item, None)) is None:
            return False
        self._queues[client].remove(item)
        if not self._queues[client]:
            del self._queues[client]
        return True

    def place(self, item: T) -> int | None:
        """Returns the number of items before it, if nobody comes or goes; None when it does not wait. Cost:
        one step for each client, and one for each item of its own before it."""
        if (client := self._client.get(item)) is None:
            return None
        row, count, earlier = self._queues[client].index(item), 0, True
        for other, queue in self._queues.items():
            earlier = earlier and other != client
            count += row if other == client else min(len(queue), row + earlier)
        return count

    def _take_in(self, client: str, item: T) -> deque[T]:
        if item in self._client:
            raise ValueError("it waits already")
        self._client[item] = client
        return self._queues.setdefault(client, deque())


# Calls when a job's deadline has passed, by the service's clock.

SHORTEST, LONGEST = 0.05, 3600.0  # seconds between two looks at the clock, which may be set anew meanwhile


class Deadlines:
    """Watches deadlines. overdue: called once for each job watched until then, in the event loop."""

    def __init__(self, clock: Callable[[], float], overdue: Callable[[Job], None]) -> None:
        self._clock, self._overdue = clock, overdue
        self._timers = dict[str, asyncio.TimerHandle]()

    def passed(self, job: Job) -> bool:
        """Returns whether the job's deadline has passed."""
        return job.deadline is not None and self._clock() >= job.deadline

    def watch(self, job: Job) -> None:
        """Watches a job from now on, unless it has no deadline."""
        if job.deadline is not None:
            seconds = min(max(job.deadline - self._clock(), SHORTEST), LONGEST)
            self._timers[job.id] = asyncio.get_running_loop().call_later(seconds, self._look, job)

    def forget(self, id: str) -> None:
        """Stops watching a job: it has ended."""
        if timer := self._timers.pop(id, None):
            timer.cancel()

    def close(self) -> None:
        """Stops watching all jobs."""
        for id in list(self._timers):
            self.forget(id)

    def _look(self, job: Job) -> None:
        del self._timers[job.id]
        if self.passed(job):
            self._overdue(job)
        else:
            self.watch(job)
