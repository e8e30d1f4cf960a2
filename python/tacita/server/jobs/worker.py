"""A worker process: how the service starts one, and its whole life, in which one thread reads orders and the
main one carries them out.

`python -m tacita.server.jobs.worker FD`: started by `start`, and by nobody else.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from tacita.errors import PeerError, TacitaError
from tacita.progress import Progress
from tacita.resources import CPU
from tacita.server import child, confined, logs
from tacita.server.child import Channel, Child, Ready, Unable, channel_of
from tacita.server.jobs.evaluator import EndedError, Report, open_evaluator
from tacita.server.jobs.messages import (
    Done,
    Evaluate,
    Failed,
    Order,
    Passed,
    Reply,
    Stop,
    Stopped,
    WorkerSpec,
)
from tacita.server.store.bodies import KEYS, REQUESTS, TEXTS

MODULE = "tacita.server.jobs.worker"
KERNELS = "kernels"  # folder of what drivers of OpenCL compile, in the data folder: some do not without one
BAD = 2  # exit status for orders that are none
Start = Callable[[WorkerSpec], Awaitable[Child]]


async def start(spec: WorkerSpec) -> Child:
    """Starts a worker on this machine. Returns, costs and raises what `start_process` does."""
    environment = confined.environment()
    if spec.device != CPU:
        environment |= dict.fromkeys(confined.CACHES, str(spec.root.absolute() / KERNELS))
    return await start_process(command_of(spec), spec, environment)


def command_of(spec: WorkerSpec) -> Sequence[str]:
    """Returns the command of the process of a worker on this machine, which opens the folders of model, plan,
    keys, requests and texts and nothing else of the data folder."""
    root = spec.root
    reads, writes = [spec.folder, spec.plan, root / KEYS], [root / REQUESTS, root / TEXTS]
    for path in (root / KEYS, *writes):
        path.mkdir(mode=0o700, exist_ok=True)
    if cards := spec.device != CPU:
        writes.append(kernels := root / KERNELS)
        shutil.rmtree(kernels, ignore_errors=True)  # a worker that was taken over leaves the next one nothing
        kernels.mkdir(mode=0o700)
    return confined.command(MODULE, hidden=root, reads=reads, writes=writes, cards=cards)


async def start_process(command: Sequence[str], spec: WorkerSpec, environment: Mapping[str, str]) -> Child:
    """Starts a worker by the command of its process, as `child.start` does. Cost: a second, and the loading
    of the model. Raises TacitaError naming the plan."""
    return await child.start(f"the worker of {spec.model} ({spec.scheme})", command, spec, Reply, environment)


class NodeSet(Protocol):
    """Places for workers beside the service's own machine, which come and go; `tacita.server.machines` has
    those of Ray. One that is gone comes back under another name."""

    def starts(self) -> Mapping[str, Start]:
        """Returns how a worker is started at each place that is there now."""

    async def changed(self) -> None:
        """Waits until other places are there than when `starts` was asked last."""


class Answering(Protocol):
    """What answers jobs, one after the other."""

    def answer(self, job: Evaluate, report: Report) -> Done | Failed | Stopped:
        """Evaluates a job; whatever is wrong with a job is its answer. What `report` raises ends the job."""


class WorkerLoop:
    """The loop of a worker. open: makes what answers. stopped: the job to end before its next stage."""

    def __init__(self, channel: Channel, open: Callable[[WorkerSpec], Answering] = open_evaluator) -> None:
        self._channel, self._open = channel, open
        self._jobs, self._stopped = SimpleQueue[Evaluate](), ""

    def serve(self) -> int:
        """Answers jobs until the other end of the channel is closed, which ends the process at once, whatever
        it does: resume points are made for that. Returns the exit status where it cannot serve."""
        try:
            spec = self._channel.receive()
        except PeerError:
            return BAD
        if not isinstance(spec, WorkerSpec):
            return BAD
        logs.start(model=spec.model, scheme=spec.scheme, worker=os.getpid())
        try:
            if (evaluator := self._load(spec)) is None:
                return 1
            threading.Thread(target=self._listen, daemon=True).start()
            while True:
                job = self._jobs.get()
                logs.say("begins", job=job.id)
                answer = evaluator.answer(job, partial(self._report, job.id))
                logs.say(answer.tag, job=job.id, keys=answer.resident)
                self._channel.send(answer)
        except BrokenPipeError:  # nobody listens any more
            os._exit(0)

    def _load(self, spec: WorkerSpec) -> Answering | None:
        began = time.monotonic()
        try:
            evaluator = self._open(spec)
        except TacitaError as error:
            logs.warn("unable", kind=type(error).__name__)
            self._channel.send(Unable.of(error))
            return None
        except Exception as error:
            logs.error("defect")
            self._channel.send(Unable(f"it failed ({type(error).__name__})", "the log says where"))
            return None
        seconds = time.monotonic() - began
        logs.say("ready", seconds=round(seconds, 3))
        self._channel.send(Ready(seconds))
        return evaluator

    def _report(self, id: str, now: Progress) -> None:
        if self._stopped == id:
            raise EndedError
        self._channel.send(Passed(id, now))

    def _listen(self) -> None:
        """Reads orders in a thread of its own, while the main one evaluates. Ends the process with them."""
        try:
            while (order := self._channel.receive()) is not None:
                self._on_order(order)
        except PeerError as error:
            logs.warn("orders", error=str(error))
            os._exit(BAD)
        os._exit(0)

    def _on_order(self, order: Order) -> None:
        match order:
            case Evaluate():
                self._stopped = ""
                self._jobs.put(order)
            case Stop():
                self._stopped = order.id
            case WorkerSpec():
                raise PeerError("a worker is set up once", hint="use one release")


def main() -> int:
    """Serves until the service has gone; the exit status."""
    return WorkerLoop(channel_of(sys.argv, Order)).serve()


if __name__ == "__main__":
    sys.exit(main())
