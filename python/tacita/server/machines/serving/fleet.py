"""Ray's nodes as a service's `jobs.worker.Fleet`: a scout says which there are, each has a worker process
of every lane."""

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
from tacita.server.jobs.queue import Lane
from tacita.server.jobs.worker import Start, Worker, started
from tacita.server.machines.connect import Site
from tacita.server.machines.serving.scout import ENDING, TOKEN, Seen, Wish, seen
from tacita.server.workers.messages import MOST_BYTES, Unable

SCOUT = (sys.executable, "-m", "tacita.server.machines.serving.scout")
COMMAND = (sys.executable, "-m", "tacita.server.machines.serving")
STARTING = 300.0  # seconds for a cluster to start, or to answer
PAUSE = 5.0  # seconds until a scout that ended is followed by another

log = logging.getLogger(__name__)


class RayFleet:
    """The nodes of a Ray cluster as places for workers. lanes: number of the service's lanes, which share the
    cores of each node. Use it in one event loop."""

    def __init__(self, wish: Wish, lanes: int) -> None:
        self._wish, self._lanes = wish, lanes
        self._seen: Seen | None = None
        self._news = asyncio.Event()
        self._scout: Process | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def sites(self) -> tuple[Site, ...]:
        """Returns the room for evaluators, now."""
        return self._seen.sites if self._seen else ()

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
        if (now := self._seen) is None:
            return {}
        numbers = Counter[str]()
        starts = dict[str, Start]()
        for site in now.sites:
            numbers[site.node] += 1
            starts[f"{site.node}:{numbers[site.node]}"] = partial(self._start, now, site)
        return starts

    async def changed(self) -> None:
        """Waits until the scout reports other sites."""
        await self._news.wait()

    async def close(self) -> None:
        """Ends the scout, and the nodes that it started."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._end()

    async def _end(self) -> None:
        """Ends the scout."""
        if (scout := self._scout) is None:
            return
        self._scout = None
        assert scout.stdin is not None  # it is a pipe
        scout.stdin.close()
        try:
            async with asyncio.timeout(ENDING + PAUSE):
                await scout.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                scout.kill()
            await scout.wait()

    async def _start(self, now: Seen, site: Site, lane: Lane, save_every: float) -> Worker:
        """Starts the worker of a lane at a site."""
        words = (now.address, site.node, str(site.cores), str(share(site.cores, self._lanes)), now.folder)
        token = {"RAY_AUTH_MODE": "token", TOKEN: now.token} if now.token else {}
        return await started((*COMMAND, *words), lane, save_every, {**os.environ, **token})

    async def _begin(self) -> None:
        """Starts a scout, and returns when it has sent a message. Raises PeerError for what it cannot do."""
        wish = json.dumps(to_json(self._wish))
        self._scout = await asyncio.create_subprocess_exec(
            *SCOUT, wish, stdin=PIPE, stdout=PIPE, limit=MOST_BYTES, start_new_session=True
        )
        if not await self._hear(self._scout):
            raise PeerError("--ray: its scout ended before it saw a node", hint="its log may say why")

    async def _hear(self, scout: Process) -> bool:
        """Reads the scout's next message. Returns whether there was one."""
        assert scout.stdout is not None
        try:
            text = await scout.stdout.readline()
        except ValueError as error:
            raise PeerError("a line of Ray's scout is too long", hint="") from error
        if not text.endswith(b"\n"):
            return False
        message = seen(text[:-1])
        if isinstance(message, Unable):
            raise PeerError(message.error, hint=message.hint)
        self._take(message)
        return True

    async def _follow(self) -> None:
        """Follows nodes that come and go; replaces a scout that is gone."""
        while True:
            try:
                while self._scout is not None and await self._hear(self._scout):
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

    def _take(self, now: Seen | None) -> None:
        nodes = len({site.node for site in now.sites}) if now else 0
        log.warning("Ray: nodes with room: %d", nodes)
        self._seen = now
        self._news.set()


def share(cores: int, lanes: int) -> float:
    """Returns the cores of a node that one lane's actor gets. Ray takes whole numbers, or less than one.

    >>> share(8, 2), share(8, 3), share(1, 2)
    (4, 2, 0.5)
    """
    return cores // lanes if cores >= lanes else cores / lanes
