"""The client's side of a run over machines: it encrypts, nodes of a cluster answer, it decrypts, in order.

The nodes are those of a service (`node_set`), and so is the pool that hands out requests, and puts back in
front what a lost evaluator had: both run in a thread of their own. The secret key stays in this process and
its folder. A request is encrypted when there is room for it on the way, and its answer is decrypted when it
comes back: neither all requests nor all responses are ever held at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from tacita.checkpoint import Checkpoint
from tacita.client.calls import LoopThread
from tacita.client.session import Client
from tacita.errors import InputError, PeerError, TacitaError
from tacita.plans import engine, envelope
from tacita.plans.answers import Answer
from tacita.plans.commitment import LinkSpeed
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.plans.public_folder import public_of
from tacita.progress import Progress
from tacita.resources import run_alone
from tacita.schemes.base import AnyPlan, Place, Seconds, save
from tacita.server.child import Child
from tacita.server.jobs.messages import WORKER, Done, Evaluate, Failed, WorkerSpec
from tacita.server.jobs.pool import Event, Job, WorkerPool
from tacita.server.jobs.worker import Start
from tacita.server.machines.cluster import ClusterRequest, Site, Where, require_reachable
from tacita.server.machines.costs import Costs, Forecast, costs_of, link_to, store_bytes
from tacita.server.machines.node import WEIGHTS, write_model
from tacita.server.machines.node_set import RayNodeSet
from tacita.texts.embed import Text

Group = Sequence[Text]  # of one request
Figures = Mapping[str, float]  # see `JobEvaluator`
T = TypeVar("T")
DEPTH = 2  # requests held for each evaluator: one runs, one is there when that ends
RESTARTS = 2  # of an evaluator at one place
MOST_LOSSES = RESTARTS + 2  # evaluators that one request may take down: more than one place has
FOLDER, LOG = "machines-", "log"


class Nodes:
    """Evaluators of one plan on the nodes of a cluster. Events are (number of a request, its figures), or the
    error that ends the run. root: the folder of plan, model and requests. log: the file of what its processes
    write to standard error."""

    def __init__(self, where: Where, threads: int, store: int, spec: WorkerSpec) -> None:
        self.root, self.log = spec.root, spec.root / LOG
        self.events = SimpleQueue[tuple[int, Figures] | TacitaError]()
        self._loop = LoopThread()
        self._nodes = RayNodeSet(ClusterRequest(where, threads, store, str(self.log)), 1, retry=True)
        self._pool = WorkerPool(spec, self._on_event, waiting=0, clock=time.monotonic, attempts=MOST_LOSSES)
        self._starts, self._given_up, self._answered = Counter[str](), set[str](), 0
        self._following: asyncio.Task[None] | None = None

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._nodes.sites

    @property
    def size(self) -> int:
        """Returns the number of evaluators that are there or are to come."""
        return max(0, len(self.sites) - len(self._given_up))

    def open(self) -> None:
        """Finds the nodes, or starts them. Raises as `RayNodeSet.open`."""
        self._loop.run(self._nodes.open())

    def start(self) -> None:
        """Begins to start an evaluator at every place."""
        self._loop.run(self._start())

    def submit(self, number: int, key_id: str, keys: Path, folder: Path) -> None:
        job = Job(Evaluate(str(number), key_id, keys.absolute(), folder.absolute()), client="")

        async def queue() -> None:
            self._pool.submit(job, resumed=True)

        self._loop.run(queue())

    def event(self, *, wait: bool) -> tuple[int, Figures] | None:
        """Returns a request that is answered; without `wait`, None for none yet. Raises what ends the run."""
        try:
            event = self.events.get(block=wait)
        except Empty:
            return None
        if isinstance(event, TacitaError):
            raise event
        return event

    def close(self) -> None:
        """Ends the evaluators, whatever they do, and the nodes that were started."""
        self._loop.run(self._end())
        self._loop.close()

    def _on_event(self, id: str, event: Event) -> None:
        """Reports an answer, and ends the run where no evaluator answers a request."""
        match event:
            case Done():
                self._answered += 1
                self.events.put((int(id), event.figures))
            case Failed(_, code, detail, hint):
                if code == WORKER:
                    detail = f"{MOST_LOSSES} evaluators were lost at it, the last: {self._reason()}"
                    hint = "do their machines have the memory that `tacita estimate` names?"
                self.events.put(PeerError(f"request {int(id) + 1}: {detail}", hint=hint))

    async def _start(self) -> None:
        self._pool.spread({})  # no worker on this machine
        await self._pool.open()
        self._following = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        """Keeps an evaluator at each place, of those that come and go."""
        while True:
            starts = self._nodes.starts()
            self._given_up &= starts.keys()
            self._pool.spread({name: partial(self._begin, name, begin) for name, begin in starts.items()})
            self._require_some()
            await self._nodes.changed()

    async def _begin(self, name: str, begin: Start, spec: WorkerSpec) -> Child:
        """Starts an evaluator at a place, where not too many were lost."""
        self._starts[name] += 1
        if self._starts[name] > RESTARTS + 1:
            self._given_up.add(name)
            self._require_some()
            await asyncio.Event().wait()  # until the pool ends
        try:
            return await begin(spec)
        except TacitaError as error:
            self._write(error)
            raise

    def _require_some(self) -> None:
        """Ends the run where no place is left."""
        if not self.size:
            what = f"no evaluator is left after {self._answered} answers: {self._reason()}"
            self.events.put(PeerError(what, hint="start nodes and run it again"))

    def _write(self, error: TacitaError) -> None:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": "lost", "kind": str(error)}) + "\n")

    def _reason(self) -> str:
        """Returns why an evaluator was lost last, by the log of its worker."""
        reason = "its node is gone"
        with suppress(OSError), self.log.open(encoding="utf-8", errors="replace") as lines:
            for text in lines:
                with suppress(ValueError):
                    line = json.loads(text)
                    if isinstance(line, dict) and line.get("event") == "lost":
                        reason = str(line.get("kind"))
        return reason

    async def _end(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._pool.close()
        await self._nodes.close()


@dataclass
class Spread:
    """A run that has its machines, and begins with the first answer that is asked for.

    costs: by the plan; link: None on one machine. seconds: of what is done once: keygen. processor: seconds
    that the cores of its evaluator worked at each request so far.
    """

    plan: Plan
    model: Checkpoint
    place: Place
    nodes: Nodes
    costs: Costs
    link: LinkSpeed | None
    seconds: Seconds = field(default_factory=dict)
    processor: list[float] = field(default_factory=list)

    @property
    def evaluators(self) -> int:
        return len(self.nodes.sites)

    def forecast(self, requests: int, evaluators: int | None = None) -> Forecast:
        """Returns the forecast for these machines, or for so many evaluators."""
        count = min(requests, self.evaluators) if evaluators is None else evaluators
        return self.costs.forecast(requests, count, self.link)

    def answers(self, groups: Sequence[Group]) -> Iterator[tuple[list[Answer], Seconds]]:
        """Yields the answers of each request and its seconds by step, in the order of the groups. A node that
        is lost costs time alone.

        Raises PeerError where all are lost, ResourceError, FileError for a response that is none of ours.
        """
        return in_order(self._answers(groups))

    def _answers(self, groups: Sequence[Group]) -> Iterator[tuple[int, tuple[list[Answer], Seconds]]]:
        client = self._client()
        self.nodes.start()
        steps: list[Seconds] = [{} for _ in groups]
        began, sent, done = time.monotonic(), 0, 0
        first = self.forecast(len(groups))
        with self.place.bar(f"{len(groups)} requests on {first.evaluators} evaluators") as report:
            report(Progress("start", 0, len(groups), 0.0, first.start + first.evaluate))
            while done < len(groups):
                if room := sent < len(groups) and sent - done < DEPTH * max(self.nodes.size, 1):
                    self._send(client, sent, groups[sent], steps[sent])
                    sent += 1
                while (event := self.nodes.event(wait=not room)) is not None:
                    number, figures = event
                    done += 1
                    step = steps[number]
                    step["evaluate"] = figures["evaluate_seconds"]
                    self.processor.append(figures["processor_seconds"])
                    each = sum(one.get("evaluate", 0.0) for one in steps) / done
                    remaining = ceil((len(groups) - done) / max(self.nodes.size, 1)) * each
                    report(Progress("done", done, len(groups), time.monotonic() - began, remaining))
                    yield number, (self._decrypt(client, number, groups[number], step), step)
                    if not room:
                        break

    def _client(self) -> Client:
        """Returns the client with keys: those of its folder where they may stay, else new ones."""
        place = self.place
        files = Workdir(place.folder)
        public, insecure = public_of(self.plan, self.model), place.allow_insecure
        client = Client(public, files, allow_insecure=insecure, one_user=True)
        if not (place.keep_key and files.secret_key.exists()):
            began = time.monotonic()
            with place.bar("keygen") as report:
                client.keygen(report)
            self.seconds["keygen"] = time.monotonic() - began
        return client

    def _send(self, client: Client, number: int, texts: Group, step: Seconds) -> None:
        began = time.monotonic()
        request = client.encrypt_batch(texts)
        step["encrypt"] = time.monotonic() - began
        job = self._job(number)
        job.path.mkdir(parents=True)
        shutil.copyfile(request, job.request)
        key_id = envelope.key_of(request, "request")
        self.nodes.submit(number, key_id, client.work.evaluation_keys, job.path)

    def _decrypt(self, client: Client, number: int, texts: Group, step: Seconds) -> list[Answer]:
        began, job = time.monotonic(), self._job(number)
        job.request.replace(client.work.request)
        job.response.replace(client.work.response)
        answers = client.decrypt_batch(texts=texts)
        shutil.rmtree(job.path)
        step["decrypt"] = time.monotonic() - began
        return answers

    def _job(self, number: int) -> Workdir:
        return Workdir(self.nodes.root / str(number))


@contextmanager
def spreading(
    plan: AnyPlan, model: Checkpoint, place: Place, where: Where, *, link: LinkSpeed | None = None
) -> Iterator[Spread]:
    """Yields a run over machines, which end with it where it started them. place: its folder is the client's;
    memory of each evaluator and, of machines started here, their cores. link: between client and nodes
    (default: a LAN).

    Raises InputError for a plan of two parties and where Ray is not installed, PlanError for parameters below
    128 bits unless the place allows them, PeerError: see `RayNodeSet.open`.
    """
    if not isinstance(plan, Plan):
        raise InputError(
            f"--ray: {plan.scheme} answers over a connection", hint="--scheme thor, leaf, arion or moai"
        )
    engine.require_secure(plan.parameters, allow_insecure=place.allow_insecure)
    require_reachable(where)
    with run_alone(place.folder), _quiet():
        root = Path(tempfile.mkdtemp(prefix=FOLDER, dir=place.folder))
        nodes = Nodes(
            where, place.threads, store_bytes([plan], where.nodes or 1), _spec(plan, model, place, root)
        )
        try:
            save(plan, Workdir(root).plan)
            write_model(model, root)
            nodes.open()
            weights = (root / WEIGHTS).stat().st_size
            costs = costs_of(plan, weights, min(site.cores for site in nodes.sites), place.memory)
            yield Spread(plan, model, place, nodes, costs, link_to(link, local=where.address is None))
        finally:
            nodes.close()
            shutil.rmtree(root, ignore_errors=True)


def _spec(plan: Plan, model: Checkpoint, place: Place, root: Path) -> WorkerSpec:
    memory, insecure = place.memory, place.allow_insecure
    return WorkerSpec(model.name, plan.scheme, root, root, root, 0, memory, insecure, model.sha256)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what a service logs of its workers from this terminal: a loss costs time alone."""
    log = logging.getLogger("tacita.server")
    handler, before = logging.NullHandler(), log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.propagate = before
        log.removeHandler(handler)


def in_order(numbered: Iterable[tuple[int, T]]) -> Iterator[T]:
    """Yields the values of (number from 0, value) pairs by their numbers, each as soon as it can be."""
    early: dict[int, T] = {}
    due = 0
    for number, value in numbered:
        early[number] = value
        while due in early:
            yield early.pop(due)
            due += 1
