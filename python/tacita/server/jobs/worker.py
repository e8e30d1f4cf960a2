"""One worker process, as the service sees it: how it is started, sent orders, read and ended."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from tacita.errors import PeerError, TacitaError
from tacita.server import confined
from tacita.server.jobs.queue import WorkerSpec
from tacita.server.store.bodies import KEYS, REQUESTS
from tacita.server.workers.messages import MOST_BYTES, Order, Ready, Reply, Setup, Unable, line, parse_reply

MODULE = "tacita.server.workers"
READY_SECONDS = 1800.0  # to load a model and build its circuit: minutes for the largest
END_SECONDS = 5.0  # from the end of its input to the end of the process


class Worker(Protocol):
    """A worker of a pool; tests have one without a process."""

    @property
    def pid(self) -> int:
        """Returns the process id."""

    def send(self, order: Order) -> None:
        """Sends an order. Raises nothing: that the process has gone, `hear` tells."""

    async def hear(self) -> Reply | None:
        """Returns its next message; None when it has gone. Raises PeerError for what is none."""

    def kill(self) -> None:
        """Ends the process at once; `hear` tells when it has gone."""

    async def end(self) -> None:
        """Ends the process and waits for its end. Must not be called while `hear` waits."""


Start = Callable[[WorkerSpec, float], Awaitable[Worker]]


class ProcessWorker:
    """A process in a session of its own, so that Ctrl-C at the service's terminal does not reach it. Its
    standard error is the service's."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout

    @property
    def pid(self) -> int:
        """Returns the process id."""
        return self._process.pid

    def send(self, order: Order) -> None:
        """Writes an order to the process."""
        self._input.write(line(order))

    async def hear(self) -> Reply | None:
        """Reads the next message; None when it has gone. Raises PeerError for what is none."""
        try:
            text = await self._output.readline()
        except ValueError as error:
            raise PeerError(f"a worker's line of more than {MOST_BYTES} bytes", hint="") from error
        except OSError:
            return None
        return parse_reply(text[:-1]) if text.endswith(b"\n") else None

    def kill(self) -> None:
        """Kills the process, if it is there."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> None:
        """Closes the process's input, and kills it where it does not end. Cost: at most END_SECONDS, for a
        process that does not hear."""
        self._input.close()
        try:
            await asyncio.wait_for(self._rest(), END_SECONDS)
        except TimeoutError:
            self.kill()
            await self._rest()

    async def _rest(self) -> None:
        """Reads the rest of its output, so that no full pipe keeps it from ending, and waits for its end."""
        with contextlib.suppress(OSError):
            while await self._output.read(MOST_BYTES):
                pass
        await self._process.wait()


async def start(spec: WorkerSpec, save_every: float) -> Worker:
    """Starts a worker on this machine. Returns, costs and raises what `start_process` does."""
    return await start_process(command_of(spec), spec, save_every, confined.environment())


def command_of(spec: WorkerSpec) -> Sequence[str]:
    """Returns the command of the process of a worker on this machine, which opens the folders of model, plan,
    keys and requests and nothing else of the data folder."""
    root = spec.root
    reads, writes = [spec.folder, spec.plan, root / KEYS], [root / REQUESTS]
    for path in (root / KEYS, root / REQUESTS):
        path.mkdir(mode=0o700, exist_ok=True)
    return confined.command(MODULE, hidden=root, reads=reads, writes=writes)


async def start_process(
    command: Sequence[str], spec: WorkerSpec, save_every: float, environment: Mapping[str, str]
) -> Worker:
    """Starts a worker by the command of its process and returns it when it is ready. environment: the whole
    of it. Call it in the thread that lives as long as the service: the process ends with it. Cost: a second,
    and the loading of the model.

    Raises TacitaError naming the plan for a process that cannot serve it, or says nothing for READY_SECONDS.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE,
        stdout=PIPE,
        limit=MOST_BYTES,
        start_new_session=True,
        env=environment,
    )
    worker = ProcessWorker(process)
    try:
        worker.send(setup_of(spec, save_every))
        _require_ready(spec, await asyncio.wait_for(worker.hear(), READY_SECONDS))
    except BaseException as error:
        worker.kill()  # while it loads it does not hear
        await worker.end()
        if isinstance(error, TimeoutError):
            raise _unable(spec, f"not ready after {READY_SECONDS:.0f} s", "") from error
        raise
    return worker


def setup_of(spec: WorkerSpec, save_every: float) -> Setup:
    """Returns the first message to a worker. save_every: seconds between resume points."""
    folder = spec.folder.absolute() if spec.folder.exists() else spec.folder  # else a name
    return Setup(
        model=spec.model,
        scheme=spec.scheme,
        folder=str(folder),
        plan=str(spec.plan.absolute()),
        root=str(spec.root.absolute()),
        threads=spec.threads,
        memory=spec.memory,
        allow_insecure=spec.allow_insecure,
        sha256=spec.sha256,
        save_every=save_every,
    )


def _require_ready(spec: WorkerSpec, message: Reply | None) -> None:
    match message:
        case Ready():
            return
        case Unable(error, hint):
            raise _unable(spec, error, hint)
        case None:
            raise _unable(spec, "its process ended before it was ready", "its log may say why")
        case _:
            raise _unable(spec, f"said {message.tag} before it was ready", "use one release")


def _unable(spec: WorkerSpec, why: str, hint: str) -> TacitaError:
    return TacitaError(f"the worker of {spec.model} ({spec.scheme}): {why}", hint=hint)


# Machines beside the service's own, as the service sees them; `tacita.server.machines.serving` has those of
# Ray.


class NodeSet(Protocol):
    """Places for workers, which come and go. One that is gone comes back under another name."""

    def starts(self) -> Mapping[str, Start]:
        """Returns how a worker is started at each place that is there now."""

    async def changed(self) -> None:
        """Waits until other places are there than when `starts` was asked last."""
