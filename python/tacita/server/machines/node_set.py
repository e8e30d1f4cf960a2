"""Ray's nodes as a `jobs.worker.NodeSet`: a watcher says which there are, each has a worker process of every
plan. `tacita serve --ray` uses them, and `tacita classify --ray` by `spread`.

The server itself knows nothing of Ray (docs/decisions/0036). The watcher is a process, and so is each worker,
which is any other one but that it hands its jobs on (`forward`) to an actor on its node (`node`). So what Ray
does to a process, it does to one that is replaced.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Mapping
from functools import partial

from tacita.errors import PeerError, TacitaError
from tacita.plans.json_fields import to_json
from tacita.server import child
from tacita.server.child import Child, Supervisor
from tacita.server.jobs.messages import WorkerSpec
from tacita.server.jobs.worker import Start, start_process
from tacita.server.machines.cluster import ENDING, ClusterRequest, NodeList, Said, Site, with_token
from tacita.server.machines.forward import ActorSite

WATCHER = (sys.executable, "-m", "tacita.server.machines.cluster")
COMMAND = (sys.executable, "-m", "tacita.server.machines.forward")
STARTING = 300.0  # seconds for a cluster to start, or to answer
GRACE = 5.0  # seconds for the watcher, beside those that it gives Ray
NAME = "--ray"  # of the watcher, in errors and the log

log = logging.getLogger(__name__)


class RayNodeSet:
    """The nodes of a Ray cluster as places for workers. plans: number of plans, which share the cores of each
    node. retry: as of `ActorSite`. Use it in one event loop."""

    def __init__(self, request: ClusterRequest, plans: int, *, retry: bool = False) -> None:
        self._request, self._plans, self._retry = request, plans, retry
        self._listed: NodeList | None = None
        self._news = asyncio.Event()
        self._watcher = Supervisor(NAME, self._watch, self._on_message, self._on_exit)

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._listed.sites if self._listed else ()

    async def open(self) -> None:
        """Finds the nodes, or starts them. Cost: a local cluster starts in 5 s. Raises PeerError where no
        cluster answers or no node has enough cores."""
        try:
            await self._watcher.open()
            await self._news.wait()
            if self._listed is None:
                raise PeerError(f"{NAME}: its watcher ended before it saw a node", hint="its log may say why")
        except BaseException:
            await self.close()
            raise

    def starts(self) -> Mapping[str, Start]:
        """Returns how a worker is started at each site that is there now."""
        self._news.clear()
        if (now := self._listed) is None:
            return {}
        numbers = Counter[str]()
        starts = dict[str, Start]()
        for site in now.sites:
            numbers[site.node] += 1
            starts[f"{site.node}:{numbers[site.node]}"] = partial(self._start, now, site)
        return starts

    async def changed(self) -> None:
        await self._news.wait()

    async def close(self) -> None:
        """Ends the watcher, and the nodes that it started."""
        await self._watcher.close(ENDING + GRACE)

    async def _watch(self) -> Child:
        """Starts a watcher, and returns it when it has seen a node. Raises PeerError where it cannot."""
        try:
            async with asyncio.timeout(STARTING):
                return await child.start(NAME, WATCHER, self._request, Said)
        except TimeoutError as error:
            raise PeerError(f"{NAME}: no node within minutes", hint="its log may say why") from error
        except TacitaError as error:
            what = str(error).replace(f"{NAME}: {NAME}", NAME, 1)  # as `cluster` begins its own errors
            raise PeerError(what, hint=error.hint) from error

    async def _start(self, now: NodeList, site: Site, spec: WorkerSpec) -> Child:
        reserved, log = share(site.cores, self._plans), self._request.log
        there = ActorSite(now.address, site.node, site.cores, reserved, now.folder, self._retry, log)
        words = json.dumps(to_json(there))
        return await start_process((*COMMAND, words), spec, os.environ | with_token(now.token))

    def _on_message(self, message: Said) -> None:
        if not isinstance(message, NodeList):
            raise PeerError(f"{NAME}: its watcher says {message.tag}", hint="use one release")
        self._take(message)

    def _on_exit(self) -> bool:
        self._take(None)
        return True

    def _take(self, now: NodeList | None) -> None:
        nodes = len({site.node for site in now.sites}) if now else 0
        log.warning("Ray: nodes with room: %d", nodes)
        self._listed = now
        self._news.set()


def share(cores: int, plans: int) -> float:
    """Returns the cores of a node that one plan's actor gets. Ray takes whole numbers, or less than one.

    >>> share(8, 2), share(8, 3), share(1, 2)
    (4, 2, 0.5)
    """
    return cores // plans if cores >= plans else cores / plans
