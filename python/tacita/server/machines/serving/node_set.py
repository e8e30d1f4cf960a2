"""Ray's nodes as a service's `jobs.worker.NodeSet`: a watcher says which there are, each has a worker process
of every plan."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Mapping
from functools import partial

from tacita.errors import PeerError
from tacita.plans.json_fields import to_json
from tacita.server.child import MOST_BYTES, Child, Unable, decode
from tacita.server.jobs.queue import WorkerSpec
from tacita.server.jobs.worker import Start, start_process
from tacita.server.machines.connect import Site
from tacita.server.machines.serving.watcher import ENDING, TOKEN, ClusterRequest, NodeList

WATCHER = (sys.executable, "-m", "tacita.server.machines.serving.watcher")
COMMAND = (sys.executable, "-m", "tacita.server.machines.serving")
STARTING = 300.0  # seconds for a cluster to start, or to answer
PAUSE = 5.0  # seconds until a watcher that ended is followed by another

log = logging.getLogger(__name__)


class RayNodeSet:
    """The nodes of a Ray cluster as places for workers. plans: number of the service's plans, which share the
    cores of each node. Use it in one event loop."""

    def __init__(self, request: ClusterRequest, plans: int) -> None:
        self._request, self._plans = request, plans
        self._listed: NodeList | None = None
        self._news = asyncio.Event()
        self._watcher: Process | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def sites(self) -> tuple[Site, ...]:
        """Returns the room for evaluators, now."""
        return self._listed.sites if self._listed else ()

    async def open(self) -> None:
        """Finds the nodes, or starts them. Cost: a local cluster starts in 5 s. Raises PeerError where no
        cluster answers or no node has enough cores."""
        try:
            async with asyncio.timeout(STARTING):
                await self._begin()
        except TimeoutError as error:
            await self.close()
            raise PeerError("--ray: no node within minutes", hint="its log may say why") from error
        except BaseException:
            await self.close()
            raise
        self._following = asyncio.create_task(self._follow())

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
        """Waits until the watcher reports other sites."""
        await self._news.wait()

    async def close(self) -> None:
        """Ends the watcher, and the nodes that it started."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._end()

    async def _end(self) -> None:
        """Ends the watcher."""
        if (watcher := self._watcher) is None:
            return
        self._watcher = None
        assert watcher.stdin is not None  # it is a pipe
        watcher.stdin.close()
        try:
            async with asyncio.timeout(ENDING + PAUSE):
                await watcher.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                watcher.kill()
            await watcher.wait()

    async def _start(self, now: NodeList, site: Site, spec: WorkerSpec, save_every: float) -> Child:
        """Starts the worker of a plan at a site."""
        words = (now.address, site.node, str(site.cores), str(share(site.cores, self._plans)), now.folder)
        token = {"RAY_AUTH_MODE": "token", TOKEN: now.token} if now.token else {}
        return await start_process((*COMMAND, *words), spec, save_every, {**os.environ, **token})

    async def _begin(self) -> None:
        """Starts a watcher, and returns when it has sent a message. Raises PeerError where it cannot."""
        request = json.dumps(to_json(self._request))
        self._watcher = await asyncio.create_subprocess_exec(
            *WATCHER, request, stdin=PIPE, stdout=PIPE, limit=MOST_BYTES, start_new_session=True
        )
        if not await self._hear(self._watcher):
            raise PeerError("--ray: its watcher ended before it saw a node", hint="its log may say why")

    async def _hear(self, watcher: Process) -> bool:
        """Reads the watcher's next message. Returns whether there was one."""
        assert watcher.stdout is not None
        try:
            text = await watcher.stdout.readline()
        except ValueError as error:
            raise PeerError("a line of Ray's watcher is too long", hint="") from error
        if not text.endswith(b"\n"):
            return False
        message = decode(NodeList | Unable, text[:-1])
        if isinstance(message, Unable):
            raise PeerError(message.error, hint=message.hint)
        self._take(message)
        return True

    async def _follow(self) -> None:
        """Follows nodes that come and go; replaces a watcher that is gone."""
        while True:
            try:
                while self._watcher is not None and await self._hear(self._watcher):
                    pass
            except PeerError as error:
                log.error("Ray: %s", error)
            self._take(None)
            await self._again()

    async def _again(self) -> None:
        while True:
            await self._end()
            await asyncio.sleep(PAUSE)
            try:
                async with asyncio.timeout(STARTING):  # `wait_for` may swallow a cancellation
                    return await self._begin()
            except (PeerError, TimeoutError) as error:
                log.error("Ray: %s", error)

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
