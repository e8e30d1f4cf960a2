"""How a worker process is started: `server.child` says what follows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from tacita.server import child, confined
from tacita.server.child import Child
from tacita.server.jobs.queue import WorkerSpec
from tacita.server.store.bodies import KEYS, REQUESTS
from tacita.server.workers.messages import Reply, Setup

MODULE = "tacita.server.workers.loop"
Start = Callable[[WorkerSpec, float], Awaitable[Child]]


async def start(spec: WorkerSpec, save_every: float) -> Child:
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
) -> Child:
    """Starts a worker by the command of its process, as `child.start` does. save_every: seconds between
    resume points. Cost: a second, and the loading of the model. Raises TacitaError naming the plan."""
    name = f"the worker of {spec.model} ({spec.scheme})"
    return await child.start(name, command, setup_of(spec, save_every), Reply, environment)


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


# Machines beside the service's own, as the service sees them; `tacita.server.machines` has those of
# Ray.


class NodeSet(Protocol):
    """Places for workers, which come and go. One that is gone comes back under another name."""

    def starts(self) -> Mapping[str, Start]:
        """Returns how a worker is started at each place that is there now."""

    async def changed(self) -> None:
        """Waits until other places are there than when `starts` was asked last."""
