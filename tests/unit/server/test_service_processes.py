"""The worker's process: no orphans, no signals, nothing printed among messages, and what is no worker."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from service_dispatch import PATIENCE, World, make_world

from tacita.errors import TacitaError
from tacita.server import confined
from tacita.server.jobs import worker
from tacita.server.jobs.queue import Job, WorkerSpec
from tacita.server.jobs.worker import setup_of
from tacita.server.workers.messages import Evaluate, Passed, Ready, line, parse_reply

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("processes"), ("ann",))


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


SPEC = WorkerSpec("m", "thor", Path("m"), Path("p"), Path("r"), 1, 1.0, True, "0" * 64)
READY = f"print({line(Ready(1.0)).decode().strip()!r}, flush=True)"
DEAF = "import signal; signal.pause()"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("pass", "its process ended before it was ready"),
        (DEAF, "not ready after 0 s"),
        (READY.replace("ready", "passed"), "no message"),
        ("print('x' * 3_000_000)", "a worker's line of more than"),
    ],
    ids=["ends", "silent", "odd", "long"],
)
def test_what_is_no_worker_is_told_and_ended(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "command_of", lambda _: (sys.executable, "-c", program))
    monkeypatch.setattr(worker, "READY_SECONDS", 0.01 if program == DEAF else PATIENCE)
    with pytest.raises(TacitaError, match=said):
        asyncio.run(worker.start(SPEC, 60.0))


def test_a_worker_that_does_not_hear_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "command_of", lambda _: (sys.executable, "-c", f"{READY}; {DEAF}"))
    monkeypatch.setattr(worker, "END_SECONDS", 0.01)

    async def run() -> int:
        started = await worker.start(SPEC, 60.0)
        await started.end()
        return started.pid

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(run()), 0)


def test_a_worker_gets_what_libraries_look_at_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "command_of", lambda _: (sys.executable, "-c", f"{READY}; {DEAF}"))
    monkeypatch.setattr(worker, "END_SECONDS", 0.01)
    monkeypatch.setenv("TACITA_TOKEN", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    async def run() -> bytes:
        started = await worker.start(SPEC, 60.0)
        try:
            return Path(f"/proc/{started.pid}/environ").read_bytes()
        finally:
            await started.end()

    found = asyncio.run(run())
    assert b"OMP_NUM_THREADS=1" in found and b"PYTHONPATH=" in found and b"secret" not in found


PARENT = """
    import asyncio, sys
    from pathlib import Path
    from service_dispatch import Book
    from tacita.server.jobs.queue import WorkerSpec
    from tacita.server.jobs.manager import PoolManager

    async def main(folder, plan, root, sha256):
        spec = WorkerSpec("sst2", "thor", Path(folder), Path(plan), Path(root), 1, 4.0, True, sha256)
        manager = PoolManager([spec], Book(), waiting=1)
        await manager.start()
        print(*manager.pids().values(), flush=True)
        await asyncio.Event().wait()

    asyncio.run(main(*sys.argv[1:]))
"""


def test_no_worker_outlives_a_killed_service(world: World) -> None:
    spec = world.spec
    command = [sys.executable, "-c", textwrap.dedent(PARENT)]
    command += [str(spec.folder), str(spec.plan), str(spec.root), spec.sha256]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    with running(command, env=os.environ | {"PYTHONPATH": paths}) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert os.getsid(pid) == pid, "a session of its own: Ctrl-C does not reach it"
        parent.kill()
    assert gone(pid)


PROBE = """
    import json, os, socket, sys

    def tried(action, *arguments):
        try:
            action(*arguments)
        except OSError as error:
            return type(error).__name__
        return "done"

    data, port = sys.argv[1:]
    files = ("signing.key", "ledger.sqlite", "keys/k")
    found = {name: tried(open, os.path.join(data, name)) for name in files}
    found["listed"] = tried(os.listdir, data)
    found["written"] = tried(open, os.path.join(data, "requests", "response.ct"), "wb")
    found["keys written"] = tried(open, os.path.join(data, "keys", "k"), "wb")
    found["network"] = tried(socket.create_connection, ("127.0.0.1", int(port)))
    print(json.dumps(found))
"""


def ran(command: Sequence[str], modules: Path) -> subprocess.CompletedProcess[bytes]:
    """A process that finds modules there, too."""
    paths = os.pathsep.join([str(modules), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, env=environment, capture_output=True, check=True, timeout=PATIENCE)


def test_a_worker_opens_neither_the_signing_key_nor_the_ledger(tmp_path: Path) -> None:
    data, modules = tmp_path / "data", tmp_path / "modules"
    modules.mkdir()
    (modules / "probe.py").write_text(textwrap.dedent(PROBE))
    for name in ("signing.key", "ledger.sqlite", "keys/k", "requests/r"):
        (data / name).parent.mkdir(exist_ok=True, parents=True)
        (data / name).touch()
    folders = {"hidden": data, "reads": [data / "keys"], "writes": [data / "requests"]}
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = ("probe", str(data), str(server.getsockname()[1]))
        done = ran(confined.command(*words, **folders), modules)  # type: ignore[arg-type]
    if b"Landlock" in done.stderr:
        pytest.skip(f"no Landlock here: {done.stderr.decode()}")
    found = json.loads(done.stdout)
    for name in ("signing.key", "ledger.sqlite", "listed", "keys written"):
        assert found[name] == "PermissionError", name
    assert found["keys/k"] == found["written"] == "done"
    assert found["network"] in ("PermissionError", "done")  # kernels before 6.7 do not bind it


def test_what_cannot_be_confined_runs_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("print('runs')")
    done = ran(confined.command("probe", hidden=Path(sys.prefix) / "data"), tmp_path)
    line = json.loads(done.stderr)
    assert done.stdout == b"runs\n"
    assert line["event"] == "unconfined" and "the data folder lies in" in line["why"]


def test_a_workers_process_is_confined_and_goes_first_where_memory_is_short(world: World) -> None:
    async def run() -> tuple[str, str]:
        started = await worker.start(world.spec, 60.0)
        try:
            files = (Path(f"/proc/{started.pid}") / name for name in ("status", "oom_score_adj"))
            status, adjusted = (path.read_text() for path in files)
        finally:
            await started.end()
        return status, adjusted

    status, adjusted = asyncio.run(run())
    assert int(adjusted) == 500
    assert "NoNewPrivs:\t1" in status or not landlocked()


def landlocked() -> bool:
    """Whether this kernel has Landlock."""
    try:
        return confined._call(confined.CREATE, None, 0, confined.ASK_VERSION) > 0
    except confined.AbsentError:
        return False


HOLDER = """
    import subprocess, sys
    source, sink = map(int, sys.argv[1:])
    worker = subprocess.Popen([sys.executable, "-m", "tacita.server.workers"], stdin=source, stdout=sink)
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
        pid = int(parent.stdout.readline())
        os.write(orders, line(setup_of(world.spec, 60.0)))
        assert isinstance(parse_reply(heard.readline()[:-1]), Ready)
        parent.kill()
        assert gone(pid)
    os.close(orders)


def test_a_worker_heeds_no_signal_and_ends_with_its_input(world: World) -> None:
    """Also in the midst of an evaluation."""
    job = world.job("midst")
    command = [sys.executable, "-m", "tacita.server.workers"]
    with running(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line(setup_of(world.spec, 60.0)))
        process.stdin.write(line(order_of(job)))
        process.stdin.flush()
        assert isinstance(parse_reply(process.stdout.readline()[:-1]), Ready)
        for number in (signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        assert isinstance(parse_reply(process.stdout.readline()[:-1]), Passed)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    assert not (job.folder / "response.ct").exists()


def order_of(job: Job) -> Evaluate:
    return Evaluate(job.id, job.key_id, str(job.keys), str(job.folder))


@pytest.mark.parametrize(
    "said", [b"{}\n", b"[]\n", b"x" * (1 << 17), b""], ids=["none", "list", "long", "end"]
)
def test_a_worker_that_gets_no_order_ends(said: bytes) -> None:
    command = [sys.executable, "-m", "tacita.server.workers"]
    done = subprocess.run(command, input=said, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


def test_what_is_printed_is_no_message() -> None:
    code = """
        import os
        from tacita.server.workers.messages import take_standard
        from tacita.server.workers.messages import Ready
        channel = take_standard()
        print("printed")
        os.system("echo echoed")
        channel.tell(Ready(1.0))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
    assert done.stdout == line(Ready(1.0))
    assert set(done.stderr.split()) == {b"printed", b"echoed"}
