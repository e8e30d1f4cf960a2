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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from service_dispatch import PATIENCE, World, make_world

from tacita.errors import PeerError, TacitaError
from tacita.server import child, confined
from tacita.server.child import Channel, Child, Ready, Supervisor, Unable, encode
from tacita.server.jobs import worker
from tacita.server.jobs.messages import Evaluate, Order, Passed, Reply, Stop, WorkerSpec

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
SAY = "import socket, sys; said = socket.socket(fileno=int(sys.argv[-1])); said.sendall({!r})"
READY = SAY.format(encode(Ready(1.0)))
DEAF = "import signal; signal.pause()"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("pass", "its process ended before it was ready"),
        (DEAF, "not ready after 0 s"),
        (READY.replace("ready", "passed"), "no message"),
        (SAY.format(b"{}").replace("b'{}'", "bytes(3_000_000)"), "a line of more than"),
    ],
    ids=["ends", "silent", "odd", "long"],
)
def test_what_is_no_worker_is_told_and_ended(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "command_of", lambda _: (sys.executable, "-c", program))
    monkeypatch.setattr(child, "READY_SECONDS", 0.01 if program == DEAF else PATIENCE)
    with pytest.raises(TacitaError, match=said):
        asyncio.run(worker.start(SPEC))


def test_a_worker_that_does_not_hear_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "command_of", lambda _: (sys.executable, "-c", f"{READY}; {DEAF}"))
    monkeypatch.setattr(child, "END_SECONDS", 0.01)

    async def run() -> int:
        started = await worker.start(SPEC)
        await started.end()
        return started.pid

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(run()), 0)


def test_a_worker_gets_what_libraries_look_at_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "command_of", lambda _: (sys.executable, "-c", f"{READY}; {DEAF}"))
    monkeypatch.setattr(child, "END_SECONDS", 0.01)
    monkeypatch.setenv("TACITA_TOKEN", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    async def run() -> bytes:
        started = await worker.start(SPEC)
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
    import time
    from tacita.server.jobs.messages import WorkerSpec
    from tacita.server.jobs.pool import WorkerPool

    async def main(folder, plan, root, sha256):
        spec = WorkerSpec("sst2", "thor", Path(folder), Path(plan), Path(root), 1, 4.0, True, sha256)
        pool = WorkerPool(spec, Book(), waiting=1, clock=time.time)
        await pool.open()
        print(*pool.pids, flush=True)
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


CARD = """
    import sys
    from pathlib import Path
    from tacita.server import confined

    confined.CARDS = ("/dev/ful*",)  # in place of a GPU's
    confined.confine(Path(sys.argv[1]), [], [], cards=bool(sys.argv[2:]))
    open("/dev/full", "r+b", buffering=0)
"""


def test_a_worker_opens_a_card_only_to_compute_there(tmp_path: Path) -> None:
    if not landlocked():
        pytest.skip("no Landlock here")
    program = (sys.executable, "-c", textwrap.dedent(CARD), str(tmp_path))
    ran((*program, "cards"), tmp_path)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        ran(program, tmp_path)
    assert b"PermissionError" in caught.value.stderr and b"/dev/full" in caught.value.stderr


def test_what_cannot_be_confined_runs_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("print('runs')")
    done = ran(confined.command("probe", hidden=Path(sys.prefix) / "data"), tmp_path)
    line = json.loads(done.stderr)
    assert done.stdout == b"runs\n"
    assert line["event"] == "unconfined" and "the data folder lies in" in line["why"]


def test_a_workers_process_is_confined_and_goes_first_where_memory_is_short(world: World) -> None:
    async def run() -> tuple[str, str]:
        started = await worker.start(world.spec)
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
    command = [sys.executable, "-m", "tacita.server.jobs.worker", sys.argv[1]]
    worker = subprocess.Popen(command, pass_fds=[int(sys.argv[1])])
    print(worker.pid, flush=True)
    worker.wait()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel of Linux tells a child")
def test_a_worker_ends_with_its_parent_though_its_input_stays_open(world: World) -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(theirs.fileno())]
    with ours, theirs, running(command, pass_fds=[theirs.fileno()]) as parent:
        theirs.close()
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        channel = Channel(ours, Ready | Unable)
        channel.send(world.spec)
        assert isinstance(channel.receive(), Ready)
        parent.kill()
        assert gone(pid)


@contextmanager
def worker_alone() -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """A worker's process, and the other end of its channel."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    command = [sys.executable, "-m", "tacita.server.jobs.worker", str(theirs.fileno())]
    with ours, running(command, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        yield process, ours


def test_a_worker_heeds_no_signal_and_ends_with_its_input(world: World) -> None:
    """Also in the midst of an evaluation."""
    job = world.job("midst")
    with worker_alone() as (process, ours):
        channel = Channel(ours, Reply | Ready | Unable)
        channel.send(world.spec)
        channel.send(job.order)
        assert isinstance(channel.receive(), Ready)
        for number in (signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        assert isinstance(channel.receive(), Passed)
        ours.close()
        assert process.wait(PATIENCE) == 0
    assert not (job.order.folder / "response.ct").exists()


@pytest.mark.parametrize(
    "said", [b"{}\n", b"[]\n", b"x" * (1 << 21), b""], ids=["none", "list", "long", "end"]
)
def test_a_worker_that_gets_no_order_ends(said: bytes) -> None:
    with worker_alone() as (process, ours):
        with suppress(ConnectionError):
            ours.sendall(said)
            ours.shutdown(socket.SHUT_WR)
            assert not ours.recv(1)
        assert process.wait(PATIENCE) == 2


def test_what_is_printed_is_no_message(capfd: pytest.CaptureFixture[str]) -> None:
    program = f"print('printed'); import os; os.system('echo echoed'); {READY}; {DEAF}"

    async def run() -> None:
        started = await child.start("it", (sys.executable, "-c", program), order, Reply)
        await started.end(0.0)

    order = Evaluate("a", "b", Path("c"), Path("d"))
    asyncio.run(run())
    assert set(capfd.readouterr().err.split()) == {"printed", "echoed"}


def test_a_child_whose_message_meets_a_defect_is_followed_by_another(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Played(Child):
        pid = 1

        def __init__(self) -> None:
            pass

        async def receive(self) -> object:
            return "a message"

        async def end(self, seconds: float | None = None) -> None:
            pass

    async def start() -> Child:
        return Played()

    def on_message(message: object) -> None:
        raise KeyError("a secret")

    async def run() -> None:
        again = asyncio.Event()
        supervisor = Supervisor("it", start, on_message, on_ready=again.set)
        await supervisor.open()
        assert supervisor._life is not None
        another = asyncio.create_task(again.wait())
        await asyncio.wait({another, supervisor._life}, return_when=asyncio.FIRST_COMPLETED)
        assert another.done()
        await supervisor.close()

    monkeypatch.setattr(child, "pause_after", lambda starts: 0.0)
    asyncio.run(run())
    assert "KeyError" in caplog.text and "secret" not in caplog.text


def test_a_socket_comes_with_its_message_and_a_second_one_is_refused() -> None:
    ours, theirs = socket.socketpair()
    here, there = socket.socketpair()
    stop, channel = encode(Stop("a")), Channel(theirs, Order)
    with ours, theirs, here:
        ours.sendall(stop[:3])
        ours.sendall(stop[3:])
        assert channel.receive() == Stop("a")
        with pytest.raises(PeerError, match="without its socket"):
            channel.take_socket()
        ours.sendall(stop)
        socket.send_fds(ours, [stop], [there.fileno()])
        assert channel.receive() == channel.receive() == Stop("a")
        with channel.take_socket() as came:
            came.sendall(b"x")
        assert here.recv(1) == b"x"
        with there:
            socket.send_fds(ours, [stop], [there.fileno()] * 2)
        with pytest.raises(PeerError, match="more than one socket"):
            channel.receive()
