"""Evaluation in worker processes, on a toy ring: answers, keys that stay, deaths, and no orphans."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from service_dispatch import PATIENCE, Book, World, make_world

from tacita.errors import TacitaError
from tacita.server.jobs.manager import PoolManager
from tacita.server.jobs.queue import WorkerSpec

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

NAME = ("sst2", "thor")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("workers"))


@asynccontextmanager
async def opened(spec: WorkerSpec, book: Book, *, save_every: float = 60.0) -> AsyncIterator[PoolManager]:
    """A manager of this plan, whose workers have gone afterwards."""
    manager = PoolManager([spec], book, waiting=10, save_every=save_every)
    async with asyncio.timeout(PATIENCE):
        await manager.start()
        try:
            yield manager
        finally:
            await manager.stop()


def test_clients_are_answered_and_their_keys_stay(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    jobs = [world.job("ann1"), world.job("bob1", "bob"), world.job("ann2", text="a waste of time")]
    book = Book()

    async def run() -> None:
        async with opened(world.spec, book) as manager:
            assert [manager.submit(job) for job in jobs] == [0, 1, 2]
            await book.until("finished", 3)
            assert manager.resident() == {NAME: 2}

    asyncio.run(run())
    assert book.of("started") == ["ann1", "bob1", "ann2"]
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
    shutil.copy(jobs[0].folder / "request.ct", jobs[1].folder / "request.ct")
    book, died = Book(), list[int]()

    async def run() -> None:
        async with opened(world.spec, book, save_every=0.0) as manager:

            def kill(event: str, id: str) -> None:
                if event == "progressed" and book.stages[-1].index == 6 and not died:
                    died.append(end_worker(manager))

            book.at = kill
            for job in jobs:
                manager.submit(job)
            await book.until("finished", 3)
            assert died != [manager.pids()[NAME]]

    asyncio.run(run())
    assert book.of("requeued") == ["killed"]
    assert book.of("started") == ["killed", "killed", "next", "whole"]
    assert book.figures["killed"]["resumed_stages"] >= 6
    assert book.figures["killed"]["keys_loaded"] == 1.0, "another process knows no keys"
    assert book.figures["whole"]["resumed_stages"] == 0
    killed, whole = ((job.folder / "response.ct").read_bytes() for job in jobs[:2])
    assert killed == whole
    assert not (jobs[0].folder / ".tacita-spill").exists()


def end_worker(manager: PoolManager) -> int:
    """As the system does when memory is short; the process that it was."""
    pid = manager.pids()[NAME]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def test_workers_that_die_under_a_job_again_and_again(world: World) -> None:
    job, book, died = world.job("poison"), Book(), list[int | None]()

    async def run() -> None:
        async with opened(world.spec, book) as manager:

            def kill(event: str, id: str) -> None:
                if event == "progressed" and manager.pids()[NAME] not in died:
                    died.append(end_worker(manager))

            book.at = kill
            manager.submit(job)
            await book.until("failed")

    asyncio.run(run())
    assert len(died) == 3
    assert book.of("requeued") == ["poison"] * 2
    assert book.why["poison"] == ("worker", "3 worker processes ended during its evaluation")


def test_a_cancelled_job_ends_and_keys_stay(world: World) -> None:
    jobs, book = [world.job("unwanted"), world.job("wanted")], Book()

    async def run() -> None:
        async with opened(world.spec, book) as manager:
            pid = manager.pids()[NAME]

            def cancel(event: str, id: str) -> None:
                if event == "progressed" and id == "unwanted":
                    assert manager.cancel(id)

            book.at = cancel
            for job in jobs:
                manager.submit(job)
            await book.until("finished")
            assert manager.pids()[NAME] == pid

    asyncio.run(run())
    assert not (jobs[0].folder / "response.ct").exists()
    assert len(book.stages) == 1 + len(world.plan.stages) + 1, "the first ended before its second stage"
    assert book.figures["wanted"]["keys_loaded"] == 0.0


def test_what_a_drain_interrupts_goes_on_afterwards(world: World) -> None:
    job, before, after = world.job("drained"), Book(), Book()

    async def first() -> list[str]:
        async with opened(world.spec, before, save_every=0.0) as manager:
            manager.submit(job)
            await before.until("progressed", 5)
            return await manager.drain(0.0)

    async def second() -> None:
        async with opened(world.spec, after) as manager:
            manager.submit(job)
            await after.until("finished")

    assert asyncio.run(first()) == ["drained"]
    assert {event for event, _ in before.lines} == {"started", "progressed"}
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
    manager = PoolManager([bad, good] if "sha256" in changes else [bad], Book(), waiting=1)
    with pytest.raises(TacitaError, match=rf"the worker of bad \(thor\): .*{said}"):
        asyncio.run(asyncio.wait_for(manager.start(), PATIENCE))
    assert set(manager.pids().values()) == {None}
