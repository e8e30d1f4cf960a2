"""Pools with workers that are no processes: order, room, deadlines, cancelling, deaths, draining."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from service_dispatch import PATIENCE, Book, Puppet, settled

from tacita.errors import InputError, RefusedError, TacitaError
from tacita.server import child
from tacita.server.jobs import pool as pools
from tacita.server.jobs.messages import Evaluate, Stopped, WorkerSpec
from tacita.server.jobs.pool import Job, WorkerPool, open_all
from tacita.two_party.protocol.refusal import Reason

SPEC = WorkerSpec("m", "thor", Path("m"), Path("p"), Path("r"), 1, 1.0, True, "0" * 64)


@dataclass
class Stage:
    """A pool over puppets, the latest last."""

    book: Book = field(default_factory=Book)
    puppets: list[Puppet] = field(default_factory=list)
    now: float = 1000.0
    unable: int = 0

    async def start(self, spec: WorkerSpec) -> Any:
        if self.unable and self.puppets:
            self.unable -= 1
            raise TacitaError("it cannot", hint="")
        self.puppets.append(Puppet())
        return self.puppet

    def pool(self, waiting: int = 30, attempts: int = 3, planned: Sequence[float] = ()) -> WorkerPool:
        how: dict[str, Any] = {
            "waiting": waiting,
            "attempts": attempts,
            "planned": planned,
            "start": self.start,
        }
        return WorkerPool(SPEC, self.book, clock=lambda: self.now, **how)

    @property
    def puppet(self) -> Puppet:
        return self.puppets[-1]


def job(id: str, client: str = "ann", deadline: float | None = None) -> Job:
    return Job(Evaluate(id, "00" * 16, Path("k"), Path("f") / id), client, deadline)


def played(
    test: Callable[[Stage, WorkerPool], Awaitable[None]], **limits: Any
) -> Callable[[], Coroutine[Any, Any, None]]:
    async def run() -> None:
        stage = Stage()
        pool = stage.pool(**limits)
        await pool.open()
        async with asyncio.timeout(PATIENCE):
            await test(stage, pool)
            await pool.close()
        assert all(puppet.ended for puppet in stage.puppets)

    return run


def test_twenty_requests_of_three_clients_are_answered_in_turn() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        names = [f"{client}{number}" for client in ("ann", "bob", "cec") for number in range(7)][:20]
        places = [pool.submit(job(name, name[:3])) for name in names]
        assert places[:7] == list(range(7)), "the first client finds nobody"
        assert (places[7], places[14]) == (1, 2), "the others come before its second and third"
        expected = {name: pool.place(name) for name in names}
        for _ in names:
            await settled()
            stage.puppet.does()
        await settled()
        started = stage.book.of("running")
        assert started == stage.book.of("done")
        assert [name[:3] for name in started[:9]] == ["ann", "bob", "cec"] * 3
        assert {name: started.index(name) for name in names} == expected

    asyncio.run(played(test)())


def test_a_full_queue_refuses() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        clients = {"a": "ann", "b": "ann", "c": "bob"}
        assert [pool.submit(job(*each)) for each in clients.items()] == [0, 1, 1], "one runs, two wait"
        for _ in range(2):
            with pytest.raises(RefusedError, match=r"busy: [23] requests wait") as refused:
                pool.submit(job("d", "cec"))
            assert refused.value.reason == Reason.FULL
            await settled()
        stage.puppet.does()
        await settled()
        assert pool.submit(job("e")) == 2
        assert (pool.place("b"), pool.place("c"), pool.place("x")) == (1, None, None)
        assert stage.book.of("running") == ["a", "c"]

    asyncio.run(played(test, waiting=2)())


def test_a_job_that_is_there_is_refused() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.submit(job("a"))
        for _ in ("it waits", "it runs"):
            with pytest.raises(InputError, match="here already"):
                pool.submit(job("a", "bob"))
            await settled()

    asyncio.run(played(test)())


def test_a_pool_that_cannot_open_does_not_wait_for_the_others() -> None:
    opened = list[Puppet]()

    async def start(spec: WorkerSpec) -> Any:
        if spec.model == "m":
            opened.append(Puppet())
            return opened[0]
        if spec.model == "n":
            raise TacitaError("the worker of n (thor): bad", hint="")
        await asyncio.Event().wait()

    async def run() -> None:
        specs = [dataclasses.replace(SPEC, model=model) for model in ("m", "n", "slow")]
        pools = [WorkerPool(spec, Book(), waiting=1, clock=time.time, start=start) for spec in specs]
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(TacitaError, match="worker of n"):
                await open_all(pools)
        assert not any(pool.pids for pool in pools)

    asyncio.run(run())
    assert [puppet.ended for puppet in opened] == [True]


def test_what_waits_past_its_deadline_fails_without_a_start() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.submit(job("a"))
        await settled()
        pool.submit(job("b", deadline=1010.0))
        pool.submit(job("c", deadline=1030.0))
        stage.now = 1020.0
        stage.puppet.does()
        await settled()
        assert stage.book.of("running") == ["a", "c"]
        assert stage.book.why == {"b": ("deadline", "its deadline passed while it waited")}

    asyncio.run(played(test)())


def test_a_deadline_that_passes_behind_a_long_job_is_told_at_once() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.submit(job("a"))
        await settled()
        pool.submit(job("b", deadline=1000.01))
        stage.now = 1001.0
        await stage.book.until("failed")
        assert stage.book.lines == [("running", "a"), ("failed", "b")]
        assert pool.place("b") is None

    asyncio.run(played(test)())


def test_what_runs_past_its_deadline_ends_at_the_next_stage() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.submit(job("a", deadline=1000.01))
        pool.submit(job("b"))
        await settled()
        stage.puppet.passes()
        while not stage.puppet.told_to_stop:
            await asyncio.sleep(0.001)
        assert stage.puppet.told_to_stop == ["a"]
        assert stage.book.of("failed") == []
        stage.puppet.stops()
        await settled()
        assert stage.book.why == {"a": ("deadline", "its deadline passed while it was evaluated")}
        assert stage.book.of("running") == ["a", "b"]

    asyncio.run(played(test)())


def test_a_job_that_is_done_after_its_deadline_is_done() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.submit(job("a", deadline=1010.0))
        await settled()
        stage.now = 1011.0
        stage.puppet.passes()
        stage.puppet.does()
        await settled()
        assert stage.book.lines[-1] == ("done", "a")
        assert stage.book.why == {}

    asyncio.run(played(test)())


def test_cancelled_jobs_are_not_told_of() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        for id in "abc":
            pool.submit(job(id))
        await settled()
        assert [pool.cancel(id) for id in "bbx"] == [True, False, False]
        assert pool.cancel("a")
        assert not pool.cancel("a")
        gone = asyncio.create_task(pool.wait_ended("a"))
        stage.puppet.passes()
        await settled()
        assert not gone.done() and pool.works("a"), "its worker has not ended it"
        stage.puppet.stops()
        await gone
        assert not pool.works("a")
        await settled()
        stage.puppet.does()
        await settled()
        assert stage.book.lines == [("running", "a"), ("running", "c"), ("done", "c")]
        pool.submit(job("a"))
        await settled()
        assert stage.book.lines[-1] == ("running", "a"), "its id is free again"

    asyncio.run(played(test)())


@pytest.mark.parametrize("ending", ["does", "fails", "die"])
def test_whatever_becomes_of_a_cancelled_job_is_not_told(ending: str) -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.submit(job("a"))
        await settled()
        pool.cancel("a")
        getattr(stage.puppet, ending)()
        await pool.wait_ended("a")
        await settled()
        assert stage.book.lines == [("running", "a")]

    asyncio.run(played(test)())


def test_a_worker_that_dies_is_replaced_and_its_job_is_next() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        for id, client in [("a1", "ann"), ("a2", "ann"), ("b1", "bob")]:
            pool.submit(job(id, client))
        await settled()
        stage.puppet.passes()
        stage.puppet.die()
        await settled()
        assert len(stage.puppets) == 2 and pool.ends == 1
        for _ in range(3):
            stage.puppet.does()
            await settled()
        assert stage.book.of("waiting") == ["a1"]
        assert stage.book.of("running") == ["a1", "a1", "b1", "a2"]
        assert stage.book.of("done") == ["a1", "b1", "a2"]

    asyncio.run(played(test)())


def test_a_job_under_which_workers_die_fails_at_last() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.submit(job("a"))
        pool.submit(job("b"))
        for _ in range(2):
            await settled()
            stage.puppet.passes()
            stage.puppet.die()
        await settled()
        assert stage.book.why == {"a": ("worker", "2 worker processes ended during its evaluation")}
        assert stage.book.of("waiting") == ["a"]
        assert stage.puppet.job == "b"

    asyncio.run(played(test, attempts=2)())


def test_a_worker_that_cannot_be_replaced_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "LONGEST_PAUSE", 0.0)

    async def test(stage: Stage, pool: WorkerPool) -> None:
        stage.unable = 3
        pool.submit(job("a"))
        await settled()
        stage.puppet.die()
        await stage.book.until("waiting")
        assert not pool.pids
        await stage.book.until("running", 2)
        assert pool.pids
        assert stage.unable == 0

    asyncio.run(played(test)())


@pytest.mark.parametrize("said", [child.Ready(1.0), Stopped("b", 1), Stopped("a", 1)], ids=str)
def test_a_worker_that_says_what_none_would_is_replaced(said: Any) -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.submit(job("a"))
        await settled()
        stage.puppet.says(said)
        await settled()
        assert stage.puppets[0].ended
        assert stage.book.lines == [("running", "a"), ("waiting", "a"), ("running", "a")]

    asyncio.run(played(test)())


def test_a_failure_is_told_and_the_next_job_starts() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.submit(job("a"))
        pool.submit(job("b"))
        await settled()
        stage.puppet.fails("resources")
        await settled()
        assert stage.book.why == {"a": ("resources", "it is bad")}
        stage.puppet.does(resident=3)
        await settled()
        assert pool.resident == 3

    asyncio.run(played(test)())


def test_stopping_ends_what_runs_and_tells_nobody() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.submit(job("a"))
        pool.submit(job("b"))
        await settled()
        left = asyncio.create_task(pool.wait_ended("a"))
        await settled()
        assert not left.done()
        await pool.close()
        await left
        assert stage.book.lines == [("running", "a")]

    asyncio.run(played(test)())


def test_a_listener_with_a_defect_does_not_stop_the_pool() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        def fail(event: str, id: str) -> None:
            raise RuntimeError(id)

        stage.book.at = fail
        for id in "ab":
            pool.submit(job(id))
            await settled()
            stage.puppet.does()
        await settled()
        assert stage.book.of("done") == ["a", "b"]

    asyncio.run(played(test)())


def test_draining_lets_the_running_job_end_and_starts_none() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        for id in "ab":
            pool.submit(job(id))
        await settled()
        drain = asyncio.create_task(pool.drain(PATIENCE))
        await settled()
        with pytest.raises(RefusedError, match="ending"):
            pool.submit(job("c"))
        stage.puppet.does()
        assert await drain == ["b"]
        assert stage.book.lines == [("running", "a"), ("done", "a")]

    asyncio.run(played(test)())


@pytest.mark.parametrize("stops", [True, False])
def test_draining_interrupts_what_takes_longer(stops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "GRACE", PATIENCE if stops else 0.0)

    async def test(stage: Stage, pool: WorkerPool) -> None:
        for id, client in [("a1", "ann"), ("a2", "ann"), ("b1", "bob")]:
            pool.submit(job(id, client))
        await settled()
        drain = asyncio.create_task(pool.drain(0.0))
        while not stage.puppet.told_to_stop:
            await settled()
        if stops:
            stage.puppet.stops()
        assert await drain == ["a1", "b1", "a2"]
        assert stage.book.lines == [("running", "a1")], "nobody is told that it failed"
        assert len(stage.puppets) == 1, "no worker is started any more"

    asyncio.run(played(test)())
