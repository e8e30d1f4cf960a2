"""Evaluation in worker processes, on a toy ring: answers, keys that stay, deaths, and no orphans."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from service_dispatch import PATIENCE, TEXTS, Book, World, make_world

from tacita.errors import TacitaError
from tacita.server.jobs.messages import WorkerSpec
from tacita.server.jobs.pool import WorkerPool, open_all

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

NAME = ("sst2", "thor")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("workers"))


@asynccontextmanager
async def opened(spec: WorkerSpec, book: Book, *, save_every: float = 60.0) -> AsyncIterator[WorkerPool]:
    """A pool of this plan, whose workers have gone afterwards."""
    spec = dataclasses.replace(spec, save_every=save_every)
    pool = WorkerPool(spec, book, waiting=10, clock=time.time)
    async with asyncio.timeout(PATIENCE):
        await pool.open()
        try:
            yield pool
        finally:
            await pool.close()


def test_clients_are_answered_and_their_keys_stay(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    jobs = [world.job("ann1"), world.job("bob1", "bob"), world.job("ann2", text=TEXTS[1])]
    book = Book()

    async def run() -> None:
        async with opened(world.spec, book) as pool:
            assert [pool.submit(job) for job in jobs] == [0, 1, 2]
            await book.until("done", 3)
            assert pool.resident == 2

    asyncio.run(run())
    assert book.of("running") == ["ann1", "bob1", "ann2"]
    labels = [world.label("ann1"), world.label("bob1", "bob"), world.label("ann2")]
    assert labels == ["positive", "positive", "negative"]
    assert [book.figures[job.id]["keys_loaded"] for job in jobs] == [1.0, 1.0, 0.0]
    figures = book.figures["ann2"]
    stages = {name for name in figures if name.startswith("stage_seconds.")}
    assert stages == {f"stage_seconds.{stage.name}" for stage in world.plan.stages}
    assert figures["evaluate_seconds"] >= sum(figures[name] for name in stages) > 0
    assert book.stages[-1].index == book.stages[-1].total == len(world.plan.stages)
    log = [json.loads(text) for text in capfd.readouterr().err.splitlines()]
    assert [entry["event"] for entry in log] == ["ready", *["begins", "done"] * 3]
    assert {(entry["model"], entry["scheme"]) for entry in log} == {NAME}


def test_a_killed_worker_is_replaced_and_the_answer_is_the_same(world: World) -> None:
    """Bit for bit that of an evaluation that nobody disturbed."""
    jobs = [world.job("killed"), world.job("whole"), world.job("next", "bob")]
    shutil.copy(jobs[0].order.folder / "request.ct", jobs[1].order.folder / "request.ct")
    book, died = Book(), list[int]()

    async def run() -> None:
        async with opened(world.spec, book, save_every=0.0) as pool:

            def kill(event: str, id: str) -> None:
                if event == "passed" and book.stages[-1].index == 6 and not died:
                    died.append(end_worker(pool))

            book.at = kill
            for job in jobs:
                pool.submit(job)
            await book.until("done", 3)
            assert died != pool.pids

    asyncio.run(run())
    assert book.of("waiting") == ["killed"]
    assert book.of("running") == ["killed", "killed", "next", "whole"]
    assert book.figures["killed"]["resumed_stages"] >= 6
    assert book.figures["killed"]["keys_loaded"] == 1.0, "another process knows no keys"
    assert book.figures["whole"]["resumed_stages"] == 0
    killed, whole = ((job.order.folder / "response.ct").read_bytes() for job in jobs[:2])
    assert killed == whole
    assert not (jobs[0].order.folder / ".tacita-spill").exists()


def end_worker(pool: WorkerPool) -> int:
    """As the system does when memory is short; the process that it was."""
    (pid,) = pool.pids
    os.kill(pid, signal.SIGKILL)
    return pid


def test_workers_that_die_under_a_job_again_and_again(world: World) -> None:
    job, book, died = world.job("poison"), Book(), list[int | None]()

    async def run() -> None:
        async with opened(world.spec, book) as pool:

            def kill(event: str, id: str) -> None:
                if event == "passed" and pool.pids[0] not in died:
                    died.append(end_worker(pool))

            book.at = kill
            pool.submit(job)
            await book.until("failed")

    asyncio.run(run())
    assert len(died) == 3
    assert book.of("waiting") == ["poison"] * 2
    assert book.why["poison"] == ("worker", "3 worker processes ended during its evaluation")


def test_a_cancelled_job_ends_and_keys_stay(world: World) -> None:
    jobs, book = [world.job("unwanted"), world.job("wanted")], Book()

    async def run() -> None:
        async with opened(world.spec, book) as pool:
            pid = pool.pids[0]

            def cancel(event: str, id: str) -> None:
                if event == "passed" and id == "unwanted":
                    assert pool.cancel(id)

            book.at = cancel
            for job in jobs:
                pool.submit(job)
            await book.until("done")
            assert pool.pids[0] == pid

    asyncio.run(run())
    assert not (jobs[0].order.folder / "response.ct").exists()
    assert len(book.stages) == 1 + len(world.plan.stages) + 1, "the first ended before its second stage"
    assert book.figures["wanted"]["keys_loaded"] == 0.0


def test_what_a_drain_interrupts_goes_on_afterwards(world: World) -> None:
    job, before, after = world.job("drained"), Book(), Book()

    async def first() -> list[str]:
        async with opened(world.spec, before, save_every=0.0) as pool:
            pool.submit(job)
            await before.until("passed", 5)
            return await pool.drain(0.0)

    async def second() -> None:
        async with opened(world.spec, after) as pool:
            pool.submit(job)
            await after.until("done")

    assert asyncio.run(first()) == ["drained"]
    assert {event for event, _ in before.lines} == {"running", "passed"}
    asyncio.run(second())
    assert after.figures["drained"]["resumed_stages"] >= 4
    assert world.label("drained") == "positive"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"folder": Path("no-such-model")}, "not a folder"),
        ({"plan": Path("no-such-plan")}, "no such file"),
        ({"sha256": "0" * 64}, "expected 0000"),
        ({"allow_insecure": False}, "bits of security"),
    ],
    ids=["model", "plan", "sha256", "insecure"],
)
def test_a_worker_that_cannot_start_is_told_with_its_lane(
    world: World, changes: dict[str, object], said: str
) -> None:
    good = dataclasses.replace(world.spec, model="good")
    bad = dataclasses.replace(world.spec, model="bad", **changes)  # type: ignore[arg-type]
    specs = [bad, good] if "sha256" in changes else [bad]
    pools = [WorkerPool(spec, Book(), waiting=1, clock=time.time) for spec in specs]
    with pytest.raises(TacitaError, match=rf"the worker of bad \(thor\): .*{said}"):
        asyncio.run(asyncio.wait_for(open_all(pools), PATIENCE))
    assert not any(pool.pids for pool in pools)
