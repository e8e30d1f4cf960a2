"""For tests of the service's evaluation: who watches, workers without a process, jobs of a toy ring."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from random_checkpoint import make_random_checkpoint, write_folder

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.plans import envelope
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.schemes import base
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
from tacita.server.jobs.pool import Event, Job

PRESET, TOKENS = "insecure_toy_n10", 8
TEXTS = ["a fine film", "the plot is dull", "never boring , very good"]  # one is positive, two are negative
PATIENCE = 900.0  # seconds after which a test gives up
STAGE = Progress("layer0", 0, 2, 0.0, 1.0)


@dataclass
class Book:
    """A listener that writes down what it hears, and lets a test act at once. at: called with each line."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    at: Callable[[str, str], None] = lambda _event, _id: None
    stages: list[Progress] = field(default_factory=list)
    figures: dict[str, Mapping[str, float]] = field(default_factory=dict)
    why: dict[str, tuple[str, str]] = field(default_factory=dict)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, id: str, event: Event) -> None:
        match event:
            case Passed():
                self.stages.append(event.progress)
            case Done():
                self.figures[id] = event.figures
            case Failed():
                self.why[id] = (event.code, event.detail)
        name = event if isinstance(event, str) else event.tag
        self.lines.append((name, id))
        self.at(name, id)
        self.heard.set()

    def of(self, event: str) -> list[str]:
        """The ids of such lines, in their order."""
        return [id for name, id in self.lines if name == event]

    async def until(self, event: str, count: int = 1) -> None:
        """Returns when it was written down so many times."""
        async with asyncio.timeout(PATIENCE):
            while len(self.of(event)) < count:
                self.heard.clear()
                await self.heard.wait()


class Puppet:
    """A worker that does what the test says. orders: what it was sent."""

    pid = 1

    def __init__(self) -> None:
        self.orders, self.ended = list[Order](), False
        self._said = asyncio.Queue[Reply | None]()

    def send(self, order: Order) -> None:
        self.orders.append(order)

    async def receive(self) -> Reply | None:
        return await self._said.get()

    def kill(self) -> None:
        self.die()

    async def end(self, seconds: float | None = None) -> None:
        self.ended = True

    @property
    def job(self) -> str:
        """The one that it was given last."""
        return next(order.id for order in reversed(self.orders) if isinstance(order, Evaluate))

    @property
    def told_to_stop(self) -> list[str]:
        return [order.id for order in self.orders if isinstance(order, Stop)]

    def passes(self) -> None:
        self._said.put_nowait(Passed(self.job, STAGE))

    def does(self, resident: int = 1) -> None:
        self._said.put_nowait(Done(self.job, 1.0, {}, resident))

    def fails(self, code: str = "refused") -> None:
        self._said.put_nowait(Failed(self.job, code, "it is bad", "make another", 1))

    def stops(self) -> None:
        self._said.put_nowait(Stopped(self.job, 1))

    def says(self, said: Reply) -> None:
        self._said.put_nowait(said)

    def die(self) -> None:
        self._said.put_nowait(None)


async def settled() -> None:
    """Lets everything that can go on do so: nothing here waits for anything but the loop."""
    for _ in range(20):
        await asyncio.sleep(0)


@dataclass(frozen=True)
class World:
    """A plan of a toy ring, published, and clients with keys. Below root, files as in a service."""

    root: Path
    plan: Plan
    model: Checkpoint
    clients: Mapping[str, api.Client]

    @property
    def spec(self) -> WorkerSpec:
        plan = self.root / "plan"
        sha256 = self.model.sha256
        return WorkerSpec("sst2", "thor", self.root / "model", plan, self.root, 1, 4.0, True, sha256)

    def job(self, name: str, client: str = "ann", text: str = TEXTS[0]) -> Job:
        """A request of a client in a folder of its own."""
        party = self.clients[client]
        request = party.encrypt(text)
        folder = self.root / "requests" / name
        folder.mkdir(parents=True)
        Path(request).rename(folder / "request.ct")
        return self.again(name, client)

    def again(self, name: str, client: str = "ann") -> Job:
        """The job of a folder that is there."""
        folder = self.root / "requests" / name
        key_id = envelope.key_of(folder / "request.ct", "request")
        keys = self.root / "keys" / client / "evaluation.keys"
        return Job(Evaluate(name, key_id, keys, folder), client)

    def label(self, name: str, client: str = "ann") -> str:
        """What the client reads in the response of a job, which it takes."""
        response = Workdir(self.root / "requests" / name).response
        response.rename(self.root / "keys" / client / "response.ct")
        return str(self.clients[client].decrypt().label)


def make_world(root: Path, clients: tuple[str, ...] = ("ann", "bob")) -> World:
    """Returns a model of one layer with random weights, its plan and clients. Cost: half a second."""
    model = api.load(write_folder(make_random_checkpoint(layers=1, seed=7), root / "model"))
    plan = api.plan(model, tokens=TOKENS, preset=PRESET, texts=TEXTS)
    (root / "plan").mkdir()
    base.save(plan, root / "plan" / "plan.json")
    api.publish(plan, model, root / "public")
    return World(root, plan, model, {name: _client(root, name) for name in clients})


def _client(root: Path, name: str) -> api.Client:
    (root / "keys").mkdir(exist_ok=True)
    client = api.Client(root / "public", root / "keys" / name, allow_insecure=True)
    client.keygen()
    return client
