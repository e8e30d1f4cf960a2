"""All worker pools of a service: jobs in, events out, worker processes between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from tacita.errors import InputError
from tacita.evaluate.session import SAVE_EVERY
from tacita.server.jobs.pool import Limits, WorkerPool
from tacita.server.jobs.queue import Job, JobListener, WorkerSpec
from tacita.server.jobs.worker import Start, start

HERE = "here"  # the one place of a service of one machine


class PoolManager:
    """Pools of worker processes, each with one job at a time; clients take turns in each. A pool has one
    worker, here, unless `spread` says otherwise.

    waiting: jobs that may wait in a queue beside the one that runs, shared by client. attempts: worker
    processes that may die under a job before it fails. save_every: seconds between resume points. clock:
    unix seconds, for deadlines. Call everything in the event loop's thread, which has to live as long as the
    service: workers end with it. Raises InputError for two specs of one name.
    """

    def __init__(
        self,
        specs: Sequence[WorkerSpec],
        listener: JobListener,
        *,
        waiting: int,
        attempts: int = 3,
        save_every: float = SAVE_EVERY,
        clock: Callable[[], float] = time.time,
        start: Start = start,
    ) -> None:
        limits = Limits(waiting, attempts, save_every)
        here = {HERE: start}
        self._pools = {spec.name: WorkerPool(spec, listener, limits, here, clock) for spec in specs}
        if len(self._pools) < len(specs):
            raise InputError("two plans of one model and scheme", hint="name each once")

    async def start(self) -> None:
        """Returns when every worker is ready. Cost: the loading of the models, side by side.

        Raises TacitaError naming the plan whose worker cannot start; no worker is then left.
        """
        opening = [asyncio.create_task(pool.open()) for pool in self._pools.values()]
        try:
            await asyncio.gather(*opening)
        except BaseException:
            for task in opening:
                task.cancel()
            await asyncio.gather(*opening, return_exceptions=True)
            await self.stop()
            raise

    def spread(self, starts: Mapping[str, Start]) -> None:
        """Keeps from now on a worker of each plan at each of these places, and nowhere else; may be called
        before `start`. What runs at a place that is no more runs again at another."""
        for pool in self._pools.values():
            pool.spread(starts)

    def submit(self, job: Job, *, resumed: bool = False) -> int:
        """Queues a job and returns its place: the jobs before it, the one that runs included. The listener
        hears of it after the caller's turn of the event loop. resumed: see `WorkerPool.submit`. Raises
        RefusedError when the queue is full, or the client's share of it, or the service is ending; InputError
        for a queue that there is not and for a job that is there already."""
        if (pool := self._pools.get(job.queue)) is None:
            raise InputError(
                f"no model {job.model!r:.60} by {job.scheme!r:.60}", hint="ask for what there is"
            )
        return pool.submit(job, resumed=resumed)

    def cancel(self, id: str) -> bool:
        """Cancels a job. Returns whether it was there. One that waits is gone, one that runs ends before its
        next stage, of which `wait_ended` tells; keys stay, and the listener hears no more of it."""
        return any(pool.cancel(id) for pool in self._pools.values())

    def place(self, id: str) -> int | None:
        """Returns the number of jobs before one that waits, if nobody comes or goes; None for any other."""
        places = (pool.place(id) for pool in self._pools.values())
        return next((place for place in places if place is not None), None)

    async def wait_ended(self, id: str) -> None:
        """Waits until no worker works in the job's folder: at once, but for a job that runs."""
        await asyncio.gather(*(pool.wait_ended(id) for pool in self._pools.values()))

    async def drain(self, seconds: float) -> list[str]:
        """Starts no job from now on. Those that run may end within `seconds`, then they are ended at their
        next stage, or with their process; resume points stay. Returns the ids of jobs that are not done, in
        the order in which they would have been: submitted again after a restart, they go on."""
        unfinished = await asyncio.gather(*(pool.drain(seconds) for pool in self._pools.values()))
        return [id for ids in unfinished for id in ids]

    async def stop(self) -> None:
        """Ends all workers, whatever they do."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    def ready(self) -> bool:
        """Returns whether every pool has a worker now."""
        return all(self.workers().values())

    def pids(self) -> Mapping[tuple[str, str], int | None]:
        """Returns the process id of each pool's first worker; None while there is none."""
        return {name: next(iter(pool.pids), None) for name, pool in self._pools.items()}

    def workers(self) -> Mapping[tuple[str, str], int]:
        """Returns the number of workers of each pool."""
        return {name: len(pool.pids) for name, pool in self._pools.items()}

    def resident(self) -> Mapping[tuple[str, str], int]:
        """Returns for each pool the number of clients' keys in its workers' memory, as last told."""
        return {name: pool.resident for name, pool in self._pools.items()}
