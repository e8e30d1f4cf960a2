"""Evaluation in worker processes, on a toy ring: answers, keys that stay, deaths, and no orphans."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from service_dispatch import PATIENCE, Book, World, make_world

from tacita.errors import TacitaError
from tacita.service.dispatch.base import Job, Lane
from tacita.service.dispatch.supervisor import Supervisor
from tacita.service.dispatch.worker import setup_of
from tacita.service.workers.messages import Evaluate, Passed, Ready, line, told

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

NAME = ("sst2", "thor")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("workers"))


@asynccontextmanager
async def opened(lane: Lane, book: Book, *, save_every: float = 60.0) -> AsyncIterator[Supervisor]:
    """A supervisor of this lane, whose workers have gone afterwards."""
    supervisor = Supervisor([lane], book, waiting=10, save_every=save_every)
    async with asyncio.timeout(PATIENCE):
        await supervisor.start()
        try:
            yield supervisor
        finally:
            await supervisor.stop()


def gone(pid: int) -> bool:
    """Whether the process ends in the time that a test has."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], PATIENCE)[0])
    finally:
        os.close(handle)


@contextmanager
def running(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has gone afterwards, whatever the test finds."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def test_clients_are_answered_and_their_keys_stay(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    jobs = [world.job("ann1"), world.job("bob1", "bob"), world.job("ann2", text="a waste of time")]
    book = Book()

    async def run() -> None:
        async with opened(world.lane, book) as supervisor:
            assert [supervisor.submit(job) for job in jobs] == [0, 1, 2]
            await book.until("finished", 3)
            assert supervisor.resident() == {NAME: 2}

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
        async with opened(world.lane, book, save_every=0.0) as supervisor:

            def kill(event: str, id: str) -> None:
                if event == "progressed" and book.stages[-1].index == 6 and not died:
                    died.append(end_worker(supervisor))

            book.at = kill
            for job in jobs:
                supervisor.submit(job)
            await book.until("finished", 3)
            assert died != [supervisor.pids()[NAME]]

    asyncio.run(run())
    assert book.of("requeued") == ["killed"]
    assert book.of("started") == ["killed", "killed", "next", "whole"]
    assert book.figures["killed"]["resumed_stages"] >= 6
    assert book.figures["killed"]["keys_loaded"] == 1.0, "another process knows no keys"
    assert book.figures["whole"]["resumed_stages"] == 0
    killed, whole = ((job.folder / "response.ct").read_bytes() for job in jobs[:2])
    assert killed == whole
    assert not (jobs[0].folder / ".tacita-spill").exists()


def end_worker(supervisor: Supervisor) -> int:
    """As the system does when memory is short; the process that it was."""
    pid = supervisor.pids()[NAME]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def test_workers_that_die_under_a_job_again_and_again(world: World) -> None:
    job, book, died = world.job("poison"), Book(), list[int | None]()

    async def run() -> None:
        async with opened(world.lane, book) as supervisor:

            def kill(event: str, id: str) -> None:
                if event == "progressed" and supervisor.pids()[NAME] not in died:
                    died.append(end_worker(supervisor))

            book.at = kill
            supervisor.submit(job)
            await book.until("failed")

    asyncio.run(run())
    assert len(died) == 3
    assert book.of("requeued") == ["poison"] * 2
    assert book.why["poison"] == ("worker", "3 worker processes ended during its evaluation")


def test_a_cancelled_job_ends_and_keys_stay(world: World) -> None:
    jobs, book = [world.job("unwanted"), world.job("wanted")], Book()

    async def run() -> None:
        async with opened(world.lane, book) as supervisor:
            pid = supervisor.pids()[NAME]

            def cancel(event: str, id: str) -> None:
                if event == "progressed" and id == "unwanted":
                    assert supervisor.cancel(id)

            book.at = cancel
            for job in jobs:
                supervisor.submit(job)
            await book.until("finished")
            assert supervisor.pids()[NAME] == pid

    asyncio.run(run())
    assert not (jobs[0].folder / "response.ct").exists()
    assert len(book.stages) == 1 + len(world.plan.stages) + 1, "the first ended before its second stage"
    assert book.figures["wanted"]["keys_loaded"] == 0.0


def test_what_a_drain_interrupts_goes_on_afterwards(world: World) -> None:
    job, before, after = world.job("drained"), Book(), Book()

    async def first() -> list[str]:
        async with opened(world.lane, before, save_every=0.0) as supervisor:
            supervisor.submit(job)
            await before.until("progressed", 5)
            return await supervisor.drain(0.0)

    async def second() -> None:
        async with opened(world.lane, after) as supervisor:
            supervisor.submit(job)
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
    good = dataclasses.replace(world.lane, model="good")
    bad = dataclasses.replace(world.lane, model="bad", **changes)  # type: ignore[arg-type]
    supervisor = Supervisor([bad, good] if "sha256" in changes else [bad], Book(), waiting=1)
    with pytest.raises(TacitaError, match=rf"the worker of bad \(thor\): .*{said}"):
        asyncio.run(asyncio.wait_for(supervisor.start(), PATIENCE))
    assert set(supervisor.pids().values()) == {None}


PARENT = """
    import asyncio, sys
    from pathlib import Path
    from service_dispatch import Book
    from tacita.service.dispatch.base import Lane
    from tacita.service.dispatch.supervisor import Supervisor

    async def main(folder, plan, root, sha256):
        lane = Lane("sst2", "thor", Path(folder), Path(plan), Path(root), 1, 4.0, True, sha256)
        supervisor = Supervisor([lane], Book(), waiting=1)
        await supervisor.start()
        print(*supervisor.pids().values(), flush=True)
        await asyncio.Event().wait()

    asyncio.run(main(*sys.argv[1:]))
"""


def test_no_worker_outlives_a_killed_service(world: World) -> None:
    lane = world.lane
    command = [sys.executable, "-c", textwrap.dedent(PARENT)]
    command += [str(lane.folder), str(lane.plan), str(lane.root), lane.sha256]
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    with running(command, env=os.environ | {"PYTHONPATH": paths}) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert os.getsid(worker) == worker, "a session of its own: Ctrl-C does not reach it"
        parent.kill()
    assert gone(worker)


HOLDER = """
    import subprocess, sys
    source, sink = map(int, sys.argv[1:])
    worker = subprocess.Popen([sys.executable, "-m", "tacita.service.workers"], stdin=source, stdout=sink)
    print(worker.pid, flush=True)
    worker.wait()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel of Linux tells a child")
def test_a_worker_ends_with_its_parent_though_its_input_stays_open(world: World) -> None:
    source, orders = os.pipe()
    answers, sink = os.pipe()
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(source), str(sink)]
    with (
        os.fdopen(answers, "rb") as heard,
        running(command, pass_fds=[source, sink]) as parent,
    ):
        os.close(source)
        os.close(sink)
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        os.write(orders, line(setup_of(world.lane, 60.0)))
        assert isinstance(told(heard.readline()[:-1]), Ready)
        parent.kill()
        assert gone(worker)
    os.close(orders)


def test_a_worker_heeds_no_signal_and_ends_with_its_input(world: World) -> None:
    """Also in the midst of an evaluation."""
    job = world.job("midst")
    command = [sys.executable, "-m", "tacita.service.workers"]
    with running(command, stdin=subprocess.PIPE) as worker:
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(line(setup_of(world.lane, 60.0)))
        worker.stdin.write(line(order_of(job)))
        worker.stdin.flush()
        assert isinstance(told(worker.stdout.readline()[:-1]), Ready)
        for number in (signal.SIGTERM, signal.SIGINT):
            worker.send_signal(number)
        assert isinstance(told(worker.stdout.readline()[:-1]), Passed)
        worker.stdin.close()
        assert worker.wait(PATIENCE) == 0
    assert not (job.folder / "response.ct").exists()


def order_of(job: Job) -> Evaluate:
    return Evaluate(job.id, job.key_id, str(job.keys), str(job.folder))


@pytest.mark.parametrize(
    "said", [b"{}\n", b"[]\n", b"x" * (1 << 17), b""], ids=["none", "list", "long", "end"]
)
def test_a_worker_that_gets_no_order_ends(said: bytes) -> None:
    command = [sys.executable, "-m", "tacita.service.workers"]
    done = subprocess.run(command, input=said, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


def test_what_is_printed_is_no_message() -> None:
    code = """
        import os
        from tacita.service.workers.channel import take_standard
        from tacita.service.workers.messages import Ready
        channel = take_standard()
        print("printed")
        os.system("echo echoed")
        channel.tell(Ready(1.0))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
    assert done.stdout == line(Ready(1.0))
    assert set(done.stderr.split()) == {b"printed", b"echoed"}
