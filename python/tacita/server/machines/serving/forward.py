"""A worker of the service that evaluates nothing itself: it hands jobs on to an actor on a node.

Keys are sent to the node when the first job under them comes, in pieces, and stay in its memory as long as
there is room. A node that is lost ends this process: the service then does what it does when a worker dies.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tacita.errors import FileError, PeerError, TacitaError
from tacita.plans.files import Workdir, replacing
from tacita.server.child import decode
from tacita.server.jobs.queue import REFUSED, RESOURCES
from tacita.server.machines.evaluator import Bytes, kit_of, weights_of
from tacita.server.machines.evaluator import Failed as Refused
from tacita.server.machines.placing import ON_THE_WAY, PIECE
from tacita.server.machines.serving.node import Node
from tacita.server.workers.evaluator import EndedError, Report, loaded, source_of
from tacita.server.workers.messages import Done, Evaluate, Failed, Log, Passed, Reply, Setup, Stopped

WATCH = "watch"  # Ray's group of calls that are answered while the node evaluates


class LostError(Exception):
    """Says that the node, or the actor there, is no more."""


@dataclass(frozen=True)
class ActorSite:
    """Where an actor is. node: Ray's name of it. cores: that it computes with; share: of them that it
    reserves from Ray, where other plans have actors there. folder: for its files; empty for the node's own
    place."""

    address: str
    node: str
    cores: int
    share: float
    folder: str


class Forward:
    """Answers jobs by an actor, one after the other. actor: Ray's handle of a `Node` that is prepared."""

    def __init__(self, ray: Any, actor: Any, log: Log) -> None:
        self._ray, self._actor, self._log = ray, actor, log
        self._resident = 0

    def answer(self, job: Evaluate, report: Report) -> Done | Failed | Stopped:
        """Evaluates a job on the node, as `loop.Answering` says. Raises LostError."""
        try:
            return self._evaluate_or_stop(job, report)
        except TacitaError as error:
            return Failed(job.id, REFUSED, str(error), error.hint, self._resident)
        except self._ray.exceptions.RayError as error:
            self._log("lost", job=job.id, kind=type(error).__name__)
            raise LostError from error

    def _evaluate_or_stop(self, job: Evaluate, report: Report) -> Done | Failed | Stopped:
        """Evaluates a job unless `report` ends it: then the node may be at its stage yet, and takes the next
        job after it."""
        try:
            return self._evaluate(job, report)
        except EndedError:
            self._ray.get(self._actor.stop.options(concurrency_group=WATCH).remote(job.id))
            return Stopped(job.id, self._resident)

    def _evaluate(self, job: Evaluate, report: Report) -> Done | Failed | Stopped:
        mark = mark_of(Path(job.keys))
        if why := self._place(job, mark):
            return Failed(job.id, RESOURCES, f"a node cannot keep keys: {why}", "try again", self._resident)
        request = _read(Workdir(Path(job.folder)).request)
        done = self._actor.evaluate.remote(job.id, job.key_id, mark, request)
        self._watch(job.id, done, report)
        text, response = self._ray.get(done)
        message = decode(Reply, text[:-1])
        if not isinstance(message, Done | Failed | Stopped):
            raise PeerError(f"a node says {message.tag} at the end of a job", hint="use one release")
        self._resident = message.resident
        if response is not None:
            with replacing(Workdir(Path(job.folder)).response) as path:
                response.tofile(path)
        return message

    def _place(self, job: Evaluate, mark: str) -> str:
        """Sends the keys, unless the node has them. Returns why it cannot keep them, or nothing."""
        if self._ray.get(self._actor.holds.remote(job.key_id, mark)):
            return ""
        answers = deque[Any]()
        for begin, piece in _pieces(Path(job.keys)):
            if len(answers) == ON_THE_WAY and (why := str(self._ray.get(answers.popleft()))):
                return why
            answers.append(self._actor.take.remote(mark, begin, piece))
        return next(filter(None, map(str, self._ray.get(list(answers)))), "")

    def _watch(self, id: str, done: Any, report: Report) -> None:
        """Reports the stages until the job is over. Raises what `report` raises."""
        count, over = 0, False
        while not over:
            messages = self._actor.passed.options(concurrency_group=WATCH).remote(id, count)
            ready, _ = self._ray.wait([done, messages], num_returns=1)
            over = done in ready
            for message in (decode(Reply, text[:-1]) for text in self._ray.get(messages)):
                count += 1
                if isinstance(message, Passed):
                    report(message.progress)


def open_forward(ray: Any, site: ActorSite, setup: Setup, log: Log) -> Forward:
    """Loads model and plan here, and has an actor at the site build its circuit. Raises TacitaError for what
    cannot be served there."""
    plan, model = loaded(setup)
    insecure = setup.allow_insecure
    kit = kit_of(plan, model, setup.memory, allow_insecure=insecure, folder=site.folder)
    weights = np.frombuffer(weights_of(model), np.uint8)
    actor = _actor(ray, site)
    try:
        refused = ray.get(actor.prepare.remote(kit, ray.put(weights), setup.scheme))
    except ray.exceptions.RayError as error:
        raise PeerError(f"node {site.node[:12]}: {type(error).__name__}", hint="does it run?") from error
    if isinstance(refused, Refused):
        raise PeerError(f"node {site.node[:12]}: {refused.why}", hint=refused.hint)
    return Forward(ray, actor, log)


def mark_of(path: Path) -> str:
    """Returns a hash of a file's name and state. Raises FileError where there is none."""
    return hashlib.sha256(repr(source_of(path)).encode()).hexdigest()


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
        raise FileError("evaluation.keys: they cannot be read", hint="upload them again") from error
