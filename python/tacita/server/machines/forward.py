"""A worker that evaluates nothing itself: it hands jobs on to an actor on a node.
`python -m tacita.server.machines.forward SITE FD` is started by `node_set`, and by nobody else.

Weights are sent to the node at the start, keys when the first job under them comes, both in pieces: a node
then needs room for a few of these in Ray's store, where a whole file (2 GB of keys at full size) would stay
there beside the evaluator's own copy in memory. A node that is lost ends this process: the pool then does
what it does when a worker dies.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tacita.errors import FileError, PeerError, TacitaError
from tacita.plans.files import Workdir, replacing
from tacita.plans.json_fields import from_json
from tacita.plans.plan import Plan
from tacita.server import logs
from tacita.server.child import Unable, channel_of, decode, ignore_signals
from tacita.server.jobs.evaluator import EndedError, Report, mark_of
from tacita.server.jobs.messages import (
    REFUSED,
    RESOURCES,
    Done,
    Evaluate,
    Failed,
    Order,
    Passed,
    Reply,
    Stopped,
    WorkerSpec,
)
from tacita.server.jobs.worker import WorkerLoop
from tacita.server.machines.cluster import member, send_errors_to
from tacita.server.machines.node import MODEL, WEIGHTS, Bytes, Node
from tacita.version import __version__

PIECE = 16 << 20  # bytes of a file that are sent at once
ON_THE_WAY = 2  # pieces
LOST = 3  # exit status when the node is no more
WATCH = "watch"  # Ray's group of calls that are answered while the node evaluates


class LostError(Exception):
    """Says that the node, or the actor there, is no more."""


@dataclass(frozen=True)
class ActorSite:
    """Where an actor is. node: Ray's name of it. cores: that it computes with; share: of them that it
    reserves from Ray, where other plans have actors there. folder: for its files; empty for the node's own
    place. retry: whether a job that fails for want of memory or disk, or by a defect, counts as the loss of
    the node, so that another one takes it. log: a file for this process's log; empty for the server's."""

    address: str
    node: str
    cores: int
    share: float
    folder: str
    retry: bool = False
    log: str = ""


class Forward:
    """Answers jobs by an actor, one after the other. actor: Ray's handle of a `Node` that is prepared. retry:
    as of `ActorSite`."""

    def __init__(self, ray: Any, actor: Any, *, retry: bool = False) -> None:
        self._ray, self._actor, self._retry = ray, actor, retry
        self._resident = 0

    def answer(self, job: Evaluate, report: Report) -> Done | Failed | Stopped:
        """Evaluates a job on the node, as `worker.Answering` says. Raises LostError."""
        try:
            answer = self._evaluate_or_stop(job, report)
        except TacitaError as error:
            return Failed(job.id, REFUSED, str(error), error.hint, self._resident)
        except self._ray.exceptions.RayError as error:
            logs.warn("lost", job=job.id, kind=type(error).__name__)
            raise LostError from error
        if self._retry and isinstance(answer, Failed) and answer.code != REFUSED:
            logs.warn("lost", job=job.id, kind=f"{answer.detail} ({answer.hint})")
            raise LostError
        return answer

    def _evaluate_or_stop(self, job: Evaluate, report: Report) -> Done | Failed | Stopped:
        """Evaluates a job unless `report` ends it: then the node may be at its stage yet, and takes the next
        job after it."""
        try:
            return self._evaluate(job, report)
        except EndedError:
            self._ray.get(self._actor.stop.options(concurrency_group=WATCH).remote(job.id))
            return Stopped(job.id, self._resident)

    def _evaluate(self, job: Evaluate, report: Report) -> Done | Failed | Stopped:
        mark = mark_of(job.keys)
        if why := self._place(job, mark):
            return Failed(job.id, RESOURCES, f"a node cannot keep keys: {why}", "try again", self._resident)
        request = _read(Workdir(job.folder).request)
        message: Any = None
        for reference in self._actor.evaluate.remote(job.id, job.key_id, mark, request):
            text, response = self._ray.get(reference)
            message = decode(Reply, text)
            if isinstance(message, Passed):
                report(message.progress)
        if not isinstance(message, Done | Failed | Stopped):
            raise PeerError(f"a node says {message!r:.80} at the end of a job", hint="use one release")
        self._resident = message.resident
        if response is not None:
            with replacing(Workdir(job.folder).response) as path:
                response.tofile(path)
        return message

    def _place(self, job: Evaluate, mark: str) -> str:
        """Sends the keys, unless the node has them. Returns why it cannot keep them, or nothing."""
        if self._ray.get(self._actor.holds.remote(job.key_id, mark)):
            return ""
        return send(self._ray, self._actor, job.keys, mark)


def open_forward(ray: Any, site: ActorSite, spec: WorkerSpec) -> Forward:
    """Has an actor at the site build the circuit of the plan and the model (`node.write_model`) in the plan's
    folder. Raises TacitaError for what cannot be served there."""
    actor = _actor(ray, site)
    try:
        prepare(ray, actor, spec, site)
    except ray.exceptions.RayError as error:
        raise PeerError(f"node {site.node[:12]}: {type(error).__name__}", hint="does it run?") from error
    return Forward(ray, actor, retry=site.retry)


def prepare(ray: Any, actor: Any, spec: WorkerSpec, site: ActorSite) -> None:
    """Sends plan and model to an actor, which builds the circuit. Raises PeerError where it cannot, and
    TacitaError for files that are not there."""
    plan = Plan.load(Workdir(spec.plan).plan)
    model = (spec.plan / MODEL).read_text(encoding="utf-8")
    refused: Unable | None = ray.get(actor.open.remote(__version__, site.folder))
    if refused is None and (why := send(ray, actor, spec.plan / WEIGHTS, WEIGHTS)):
        refused = Unable(f"a node cannot keep weights: {why}", "make room on its disk")
    if refused is None:
        refused = ray.get(actor.build.remote(plan.to_text(), plan.salt, model, spec))
    if refused is not None:
        raise PeerError(f"node {site.node[:12]}: {refused.error}", hint=refused.hint)


def send(ray: Any, actor: Any, path: Path, name: str) -> str:
    """Sends a file to an actor under a name. Returns why it cannot be kept there, or nothing."""
    answers = deque[Any]()
    for begin, piece in _pieces(path):
        if len(answers) == ON_THE_WAY and (why := str(ray.get(answers.popleft()))):
            return why
        answers.append(actor.take.remote(name, begin, piece))
    return next(filter(None, map(str, ray.get(list(answers)))), "")


def _actor(ray: Any, site: ActorSite) -> Any:
    there = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    kind = ray.remote(concurrency_groups={WATCH: 1})(Node)
    on_node = kind.options(num_cpus=site.share, scheduling_strategy=there(site.node, soft=False))
    return on_node.remote(site.cores)


def _read(path: Path) -> Bytes:
    try:
        return np.fromfile(path, np.uint8)
    except OSError as error:
        raise FileError("request.ct: it cannot be read", hint="send it again") from error


def _pieces(path: Path) -> Iterator[tuple[int, Bytes]]:
    """Yields (first byte, piece) of a file. Raises FileError."""
    begin = 0
    try:
        with path.open("rb") as file:
            while (piece := np.fromfile(file, np.uint8, PIECE)).size:
                yield begin, piece
                begin += piece.size
    except OSError as error:
        raise FileError(f"{path.name}: they cannot be read", hint="upload them again") from error


def main(words: Sequence[str]) -> int:
    """Serves until the server or the node has gone; the exit status."""
    channel, site = channel_of(words, Order), from_json(ActorSite, json.loads(words[0]))
    send_errors_to(site.log)
    try:
        with ExitStack() as stack:

            def begin(spec: WorkerSpec) -> Forward:
                ray = stack.enter_context(member(site.address))
                ignore_signals()  # Ray sets its own
                return open_forward(ray, site, spec)

            return WorkerLoop(channel, begin).serve()
    except LostError:
        os._exit(LOST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
