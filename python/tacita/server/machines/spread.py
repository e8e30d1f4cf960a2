"""The client's side of a run over machines: it encrypts, evaluators answer, it decrypts, in order.

The secret key stays in this process's folder. A request is encrypted when there is room for it on the way
(`in_flight`), and its answer is decrypted when it comes back: neither all requests nor all responses are ever
held at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tacita.checkpoint import Checkpoint
from tacita.client.session import Client
from tacita.errors import InputError
from tacita.plans import engine
from tacita.plans.answers import Answer
from tacita.plans.commitment import LinkSpeed
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.plans.prices.predict import file_bytes
from tacita.plans.public_folder import public_of
from tacita.progress import Progress
from tacita.schemes.base import AnyPlan, Place, Seconds
from tacita.server.machines.actors import Actors
from tacita.server.machines.connect import LEAST_STORE, Cluster, connected
from tacita.server.machines.evaluator import Bytes, kit_of, weights_of
from tacita.server.machines.in_flight import DEPTH, in_order, spread
from tacita.server.machines.placing import (
    ON_THE_WAY,
    PIECE,
    Costs,
    Forecast,
    Where,
    costs_of,
    link_to,
    seconds_left,
)
from tacita.texts.embed import Text

Group = Sequence[Text]  # of one request


@dataclass
class Spread:
    """A run that has its machines, and begins with the first answer that is asked for.

    evaluators, nodes: that requests go to. costs: by the plan; link: None on one machine. seconds: of what
    is done once: keygen. processor: seconds of each evaluation so far, see `Evaluated`.
    """

    plan: Plan
    model: Checkpoint
    place: Place
    cluster: Cluster
    costs: Costs
    link: LinkSpeed | None
    weights: bytes = field(repr=False)
    stack: ExitStack = field(repr=False)
    seconds: Seconds = field(default_factory=dict)
    processor: list[float] = field(default_factory=list)

    @property
    def evaluators(self) -> int:
        """Returns the number of evaluators that there is room for."""
        return len(self.cluster.sites)

    def forecast(self, requests: int, evaluators: int | None = None) -> Forecast:
        """Returns the forecast for these machines, or for so many evaluators on a node each."""
        count = min(requests, self.evaluators) if evaluators is None else evaluators
        nodes = count if evaluators else min(count, self.cluster.nodes)
        return self.costs.forecast(requests, count, self.link, nodes)

    def answers(self, groups: Sequence[Group]) -> Iterator[tuple[list[Answer], Seconds]]:
        """Yields the answers of each request and its seconds by step, in the order of the groups. A node that
        is lost costs time alone.

        Raises PeerError where all are lost, ResourceError, FileError for a response that is none of ours.
        """
        return in_order(self._answers(groups))

    def _answers(self, groups: Sequence[Group]) -> Iterator[tuple[int, tuple[list[Answer], Seconds]]]:
        client = self._client()
        pool = self._actors(len(groups))
        steps: list[Seconds] = [{} for _ in groups]
        began = time.monotonic()
        first = self.forecast(len(groups))
        with self.place.bar(f"{len(groups)} requests on {first.evaluators} evaluators") as report:
            report(Progress("start", 0, len(groups), 0.0, first.start + first.evaluate))
            replies = spread(_requests(client, groups, steps), pool)
            for done, (number, reply) in enumerate(replies, 1):
                step = steps[number]
                answers = _decrypt(client, reply.response, groups[number], step)
                step["evaluate"] = reply.seconds
                self.processor.append(reply.processor)
                each = sum(one.get("evaluate", 0.0) for one in steps) / done
                remaining = seconds_left(len(groups), done, pool.size, each)  # of evaluators that are left
                report(Progress("done", done, len(groups), time.monotonic() - began, remaining))
                yield number, (answers, step)

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

    def _actors(self, requests: int) -> Actors:
        place, cluster = self.place, self.cluster
        insecure, folder = place.allow_insecure, cluster.folder
        kit = kit_of(self.plan, self.model, place.memory, allow_insecure=insecure, folder=folder)
        keys = np.asarray(np.memmap(Workdir(place.folder).evaluation_keys, np.uint8, "r"))
        weights = np.frombuffer(self.weights, np.uint8)
        pool = Actors(cluster.ray, cluster.sites[:requests], kit, keys, weights)
        self.stack.callback(pool.close, files=not folder)
        return pool


@contextmanager
def spreading(
    plan: AnyPlan, model: Checkpoint, place: Place, where: Where, *, link: LinkSpeed | None = None
) -> Iterator[Spread]:
    """Connects to machines for a plan and its model; nothing runs there yet. place: the client's, with the
    memory of each evaluator and, of machines started here, their cores. link: between client and nodes
    (default: a LAN).

    Raises InputError for a plan of two parties and where Ray is not installed, PlanError for parameters below
    128 bits unless the place allows them, PeerError: see `connected`.
    """
    if not isinstance(plan, Plan):
        raise InputError(
            f"--ray: {plan.scheme} answers over a connection", hint="--scheme thor, leaf, arion or moai"
        )
    engine.require_secure(plan.parameters, allow_insecure=place.allow_insecure)
    weights = weights_of(model)
    store = _store_bytes(plan, len(weights), where.nodes or 1)
    with connected(where, threads=place.threads, store=store) as cluster, ExitStack() as stack:
        costs = costs_of(plan, len(weights), min(site.cores for site in cluster.sites), place.memory)
        between = link_to(link, local=where.local)
        yield Spread(plan, model, place, cluster, costs, between, weights, stack)


def _store_bytes(plan: Plan, weights: int, nodes: int) -> int:
    """Returns the bytes that the driver's node must store: weights, and what is on its way: pieces of keys,
    then requests and responses."""
    sizes = file_bytes(plan)
    moving = DEPTH * nodes * (sizes["request"] + sizes["response"])
    return LEAST_STORE + weights + ON_THE_WAY * PIECE + moving


def _requests(client: Client, groups: Sequence[Group], steps: Sequence[Seconds]) -> Iterator[Bytes]:
    """Yields the bytes of each request, encrypted when it is needed."""
    for texts, step in zip(groups, steps, strict=True):
        began = time.monotonic()
        path = client.encrypt_batch(texts)
        step["encrypt"] = time.monotonic() - began
        yield np.fromfile(path, np.uint8)


def _decrypt(client: Client, response: Bytes, texts: Group, step: Seconds) -> list[Answer]:
    began = time.monotonic()
    path: Path = client.work.response
    response.tofile(path)
    answers = client.decrypt_batch(texts=texts)
    step["decrypt"] = time.monotonic() - began
    return answers
