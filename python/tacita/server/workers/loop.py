"""A worker's whole life: one thread reads orders, the main one carries them out.

`python -m tacita.server.workers.loop FD`: started by `server.jobs`, and by nobody else.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from tacita.errors import PeerError, TacitaError
from tacita.progress import Progress
from tacita.server.child import Channel, Ready, Unable, channel_of
from tacita.server.workers.evaluator import EndedError, Report, open_evaluator
from tacita.server.workers.messages import (
    Done,
    Evaluate,
    Failed,
    Log,
    Order,
    Passed,
    Setup,
    Stop,
    Stopped,
    where,
)

BAD = 2  # exit status for orders that are none


class Answering(Protocol):
    """What answers jobs, one after the other."""

    def answer(self, job: Evaluate, report: Report) -> Done | Failed | Stopped:
        """Evaluates a job; whatever is wrong with a job is its answer. What `report` raises ends the job."""


Open = Callable[[Setup, Log], Answering]


class WorkerLoop:
    """The loop of a worker. open: makes what answers. stopped: the job to end before its next stage."""

    def __init__(self, channel: Channel, open: Open = open_evaluator) -> None:
        self._channel, self._open = channel, open
        self._jobs, self._stopped = SimpleQueue[Evaluate](), ""

    def serve(self) -> int:
        """Answers jobs until the other end of the channel is closed, which ends the process at once, whatever
        it does: resume points are made for that. Returns the exit status where it cannot serve."""
        try:
            setup = self._channel.receive()
        except PeerError:
            return BAD
        if not isinstance(setup, Setup):
            return BAD
        log = Log(setup.model, setup.scheme)
        try:
            if (evaluator := self._load(setup, log)) is None:
                return 1
            threading.Thread(target=self._listen, args=(log,), daemon=True).start()
            while True:
                self._answer(evaluator, self._jobs.get(), log)
        except BrokenPipeError:  # nobody listens any more
            os._exit(0)

    def _load(self, setup: Setup, log: Log) -> Answering | None:
        began = time.monotonic()
        try:
            evaluator = self._open(setup, log)
        except TacitaError as error:
            log("unable", kind=type(error).__name__)
            self._channel.send(Unable.of(error))
            return None
        except Exception as error:
            kind = type(error).__name__
            log("defect", kind=kind, where=where(error.__traceback__))
            self._channel.send(Unable(f"it failed ({kind})", "the log says where"))
            return None
        seconds = time.monotonic() - began
        log("ready", seconds=round(seconds, 3))
        self._channel.send(Ready(seconds))
        return evaluator

    def _answer(self, evaluator: Answering, job: Evaluate, log: Log) -> None:
        log("begins", job=job.id)
        answer = evaluator.answer(job, lambda now: self._report(job.id, now))
        log(answer.tag, job=job.id, keys=answer.resident)
        self._channel.send(answer)

    def _report(self, id: str, now: Progress) -> None:
        if self._stopped == id:
            raise EndedError
        self._channel.send(Passed(id, now))

    def _listen(self, log: Log) -> None:
        """Reads orders in a thread of its own, while the main one evaluates. Ends the process with them."""
        try:
            while (order := self._channel.receive()) is not None:
                self._on_order(order)
        except PeerError as error:
            log("orders", error=str(error))
            os._exit(BAD)
        os._exit(0)

    def _on_order(self, order: Order) -> None:
        match order:
            case Evaluate():
                self._stopped = ""
                self._jobs.put(order)
            case Stop():
                self._stopped = order.id
            case Setup():
                raise PeerError("a worker is set up once", hint="use one release")


def main() -> int:
    """Serves until the service has gone; the exit status."""
    return WorkerLoop(channel_of(sys.argv, Order)).serve()


if __name__ == "__main__":
    sys.exit(main())
