"""A pool with workers at several places, which are no processes: side by side, by turns, come and gone; the
queue before them, shared by client."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from service_dispatch import PATIENCE, Book, Puppet, settled

from tacita.errors import RefusedError, TacitaError
from tacita.server.jobs.messages import Evaluate, WorkerSpec
from tacita.server.jobs.pool import Job, WorkerPool
from tacita.server.jobs.worker import Start
from tacita.two_party.protocol.refusal import Reason

SPEC = WorkerSpec("m", "thor", Path("m"), Path("p"), Path("r"), 1, 1.0, True, "0" * 64)


@dataclass
class Places:
    """A pool of one pool. at: the puppets of each place, the latest last. unable: places where none
    starts."""

    book: Book = field(default_factory=Book)
    at: dict[str, list[Puppet]] = field(default_factory=dict)
    unable: set[str] = field(default_factory=set)

    def starts(self, names: str) -> dict[str, Start]:
        return {name: self._start(name) for name in names}

    def puppet(self, name: str) -> Puppet:
        return self.at[name][-1]

    def _start(self, name: str) -> Start:
        async def start(spec: WorkerSpec) -> Any:
            if name in self.unable:
                raise TacitaError(f"nothing starts at {name}", hint="")
            self.at.setdefault(name, []).append(Puppet())
            return self.puppet(name)

        return start


def job(id: str, client: str = "ann", key: str = "00") -> Job:
    return Job(Evaluate(id, key * 16, Path("k"), Path("f") / id), client)


def play(
    test: Callable[[Places, WorkerPool], Awaitable[None]],
    names: str = "xy",
    places: Places | None = None,
    waiting: int = 30,
) -> None:
    async def run() -> None:
        stage = places or Places()
        pool = WorkerPool(SPEC, stage.book, waiting=waiting, clock=time.time)
        pool.spread(stage.starts(names))
        await pool.open()
        async with asyncio.timeout(PATIENCE):
            await test(stage, pool)
            await pool.close()
        assert all(puppet.ended for each in stage.at.values() for puppet in each)

    asyncio.run(run())


@pytest.mark.parametrize("settles", [False, True])
def test_one_client_leaves_room_in_the_queue_for_others(settles: bool) -> None:
    """However often the first one asks again."""

    async def test(places: Places, pool: WorkerPool) -> None:
        def taken(client: str, count: int) -> list[int]:
            found = []
            for _ in range(count):
                try:
                    found.append(pool.submit(job(f"{client}{next(numbers)}", client)))
                except RefusedError as error:
                    assert "of this client wait" in str(error) and error.reason == Reason.FULL
            return found

        numbers = itertools.count()
        accepted = taken("alice", 1)
        if settles:
            await settled()
        accepted += taken("alice", 74)
        assert len(accepted) == 32 + settles, "half of the queue, and the one that runs"
        assert taken("bob", 1)[0] <= 2
        await settled()
        assert not taken("alice", 75) and len(taken("bob", 75)) == 20
        assert taken("carol", 1) == [3]

    play(test, "x", waiting=64)


def test_what_an_earlier_server_accepted_is_taken_however_much_waits() -> None:
    async def test(places: Places, pool: WorkerPool) -> None:
        order = [pool.submit(job(f"a{number}"), resumed=True) for number in range(9)]
        assert order == list(range(9))
        with pytest.raises(RefusedError, match="9 requests wait"):
            pool.submit(job("b", "bob"))

    play(test, "x", waiting=2)


def test_jobs_run_side_by_side_in_turn_and_their_places_say_so() -> None:
    async def test(places: Places, pool: WorkerPool) -> None:
        assert [pool.submit(job(id)) for id in ("a1", "a2", "a3")] == [0, 0, 1]
        assert pool.submit(job("b1", "bob")) == 0, "a client that comes is before another's second"
        await settled()
        assert places.book.of("running") == ["a1", "b1"]
        assert [pool.place(id) for id in ("a2", "a3")] == [2, 3], "two run"
        places.puppet("x").does(resident=1)
        await settled()
        places.puppet("y").does(resident=2)
        await settled()
        assert places.book.of("running") == ["a1", "b1", "a2", "a3"]
        assert len(pool.pids) == 2 and pool.resident == 3

    play(test)


def test_a_job_goes_where_its_keys_are() -> None:
    async def test(places: Places, pool: WorkerPool) -> None:
        for id, key in [("a", "aa"), ("b", "bb")]:
            pool.submit(job(id, id, key))
        await settled()
        had = {places.puppet(name).job: name for name in "xy"}
        for name in "xy":
            places.puppet(name).does()
        await settled()
        for id, key in [("b2", "bb"), ("a2", "aa")]:
            pool.submit(job(id, id, key))
        await settled()
        assert {name: places.puppet(name).job for name in "xy"} == {had["a"]: "a2", had["b"]: "b2"}

    play(test)


def test_what_ran_at_a_place_that_is_gone_runs_at_another() -> None:
    async def test(places: Places, pool: WorkerPool) -> None:
        for id in "abc":
            pool.submit(job(id))
        await settled()
        lost = places.puppet("x").job
        pool.spread(places.starts("y"))
        await settled()
        assert places.book.of("waiting") == [lost]
        assert len(pool.pids) == 1
        assert len(places.at["x"]) == 1, "nobody follows at a place that is gone"
        for _ in "abc":
            places.puppet("y").does()
            await settled()
        assert sorted(places.book.of("done")) == ["a", "b", "c"]
        assert places.book.of("running")[2] == lost, "it is next"

    play(test)


def test_a_place_that_comes_takes_what_waits() -> None:
    async def test(places: Places, pool: WorkerPool) -> None:
        for id in "abc":
            pool.submit(job(id))
        pool.spread(places.starts("xz"))
        await places.book.until("running", 2)
        assert {places.puppet(name).job for name in "xz"} == {"a", "b"}
        pool.spread({})
        await settled()
        assert not pool.pids
        assert pool.place("c") == 2, "what was lost is before it"
        pool.spread(places.starts("x"))
        await places.book.until("running", 3)
        assert len(places.at["x"]) == 2, "the place has come back"

    play(test, "x")


def test_one_place_that_cannot_open_does_not_keep_the_others() -> None:
    async def test(places: Places, pool: WorkerPool) -> None:
        assert len(pool.pids) == 1
        pool.submit(job("a"))
        await settled()
        assert places.puppet("y").job == "a"

    play(test, places=Places(unable={"x"}))
    with pytest.raises(TacitaError, match="nothing starts at x"):
        play(test, names="x", places=Places(unable={"x"}))


def test_draining_lets_all_that_run_end() -> None:
    async def test(places: Places, pool: WorkerPool) -> None:
        for id in "abc":
            pool.submit(job(id))
        await settled()
        drain = asyncio.create_task(pool.drain(PATIENCE))
        await settled()
        pool.spread(places.starts("xyz"))
        for name in "yx":
            assert not drain.done()
            places.puppet(name).does()
            await settled()
        assert await drain == ["c"]
        assert sorted(places.book.of("done")) == ["a", "b"] and "z" not in places.at

    play(test)


def test_cancelling_reaches_the_worker_that_has_the_job() -> None:
    async def test(places: Places, pool: WorkerPool) -> None:
        for id in "ab":
            pool.submit(job(id))
        await settled()
        has = {places.puppet(name).job: name for name in "xy"}
        assert pool.cancel("b")
        assert places.puppet(has["b"]).told_to_stop == ["b"]
        assert places.puppet(has["a"]).told_to_stop == []
        places.puppet(has["b"]).stops()
        await pool.wait_ended("b")
        assert pool.place("a") is None and places.book.of("failed") == []

    play(test)
