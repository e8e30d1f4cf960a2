"""The service: all its parts, started and ended in order.

Clients' files and the ledger are on disk; workers and sessions are processes of their own; this one only
moves bytes and writes things down, so that it answers at once whatever they compute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

from tacita.errors import RefusedError
from tacita.extras import needing
from tacita.plans.files import Workdir
from tacita.plans.wire import public_hex
from tacita.server import logs
from tacita.server.core.accounts import Rates, Visitors
from tacita.server.core.jobs import Jobs, ProgressBus
from tacita.server.core.offers import Offered, Offers
from tacita.server.core.settings import Settings, signing_key
from tacita.server.core.sweep import Sweep
from tacita.server.core.texts import Texts
from tacita.server.jobs.messages import WorkerSpec
from tacita.server.jobs.pool import WorkerPool, open_all
from tacita.server.jobs.worker import NodeSet
from tacita.server.metrics import Metrics
from tacita.server.sessions.messages import SessionSpec
from tacita.server.sessions.supervisor import Sessions
from tacita.server.store import keys, ledger, requests, tokens
from tacita.server.store.bodies import Layout
from tacita.server.store.ledger import Ledger

SWEEP_SECONDS = 60.0
LOOK_SECONDS = 1.0  # between two looks at what clients may still take


class Service:
    """The service with all its parts. offers: see `core.offers`. nodes: machines that evaluate, opened and
    closed by the caller; None for this one alone. It is started, used and stopped in one event loop."""

    def __init__(self, offers: Offers, settings: Settings, nodes: NodeSet | None = None) -> None:
        self.offers, self.settings, self.nodes = offers, settings, nodes
        self.ledger = Ledger(settings.data, settings.clock)
        self.layout, self.bus = Layout(settings.data), ProgressBus()
        self.metrics, self.rates = Metrics(), Rates()
        signer = signing_key(settings.data)
        self.signer = public_hex(signer)
        self.jobs = Jobs(self.ledger, self.layout, self.bus, offers, self.metrics, signer)
        if settings.traces:
            with needing("tracing", "serve"):
                from tacita.server.tracing import to_collector
            self.jobs.tracing = to_collector(settings.traces)
        self.sessions: dict[str, Sessions] = {}
        for (model, scheme), offered in offers.named.items():
            self._add(model, scheme, offered)
        self.visitors = Visitors(self.ledger, settings.anybody) if settings.anybody else None
        self.ready, self.ending = False, False
        self.uploads: set[tuple[str, str]] = set()
        self.texts = Texts(self.jobs)
        self.sweep = Sweep(self.ledger, self.layout, self.jobs, self.texts, settings, self.uploads)
        self.streams: dict[str, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._cancelling: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Starts workers and sessions and queues what was left. Raises what made a worker fail."""
        uploads = {(row.client, row.id) for row in keys.every(self.ledger)}
        if swept := self.layout.sweep(uploads, set(requests.ids(self.ledger))):
            logs.warn("swept", folders=swept)
        ledger.hold(self.settings.data)
        self._watch()
        if self.nodes:
            self._spread(self.nodes)
        await asyncio.gather(open_all(self.pools), *(each.start() for each in self.sessions.values()))
        if resumed := self.jobs.resume():
            logs.say("resumed", requests=resumed)
        again = [
            _repeat(SWEEP_SECONDS, self.sweep.run, "sweep-failed"),
            _repeat(LOOK_SECONDS, self.look, "look-failed"),
        ]
        again += [self._follow(self.nodes)] if self.nodes else []
        self._tasks = [asyncio.create_task(each) for each in again]
        self.ready = True

    def close_doors(self) -> None:
        """Takes nothing new from now on, and wakes whoever watches a request."""
        self.ready, self.ending = False, True
        self.bus.wake_all()

    async def stop(self) -> None:
        """Stops everything. Requests may end within `settings.drain` seconds, or go on after a restart."""
        self.close_doors()
        for task in self._tasks:
            task.cancel()
        drain = self.settings.drain
        sessions = asyncio.gather(*(each.drain(drain) for each in self.sessions.values()))
        unfinished = await asyncio.gather(*(pool.drain(drain) for pool in self.pools))
        await sessions
        stops = [each.stop() for each in self.sessions.values()]
        await asyncio.gather(*(pool.close() for pool in self.pools), *stops)
        logs.say("stopped", unfinished=sum(map(len, unfinished)))
        if self.jobs.tracing:
            await asyncio.to_thread(self.jobs.tracing.close)
        self.ledger.close()

    async def look(self) -> None:
        """Ends jobs that are stuck, and what clients may no longer have: sessions of those whose quota is
        used up, and sessions and requests of those that are revoked; events of a request end with it."""
        for pool in self.pools:
            pool.look(LOOK_SECONDS)
        for sessions in self.sessions.values():
            sessions.look()
        for row in requests.of_clients(self.ledger, tokens.gone(self.ledger)):
            if row.state.final:
                continue
            task = asyncio.create_task(self.jobs.cancel(row))
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)

    @property
    def pools(self) -> Collection[WorkerPool]:
        """Returns the workers of each plan on ciphertexts."""
        return self.jobs.pools.values()

    def require_open(self) -> None:
        """Raises RefusedError while the server ends."""
        if self.ending:
            raise RefusedError("the server is being stopped", hint="ask again when it is back")

    def _add(self, model: str, scheme: str, offered: Offered) -> None:
        """Adds the pool of a plan on ciphertexts, the sessions of one of two parties."""
        settings, plan = self.settings, Workdir(offered.folder).plan
        clock, threads = settings.clock, settings.threads
        if offered.offer.connected:
            of = threads, settings.sessions, offered.plan.hash
            names = ("documents", "prepared", "silence", "bits_per_second")
            more: dict[str, Any] = {name: getattr(settings, name) for name in names}
            session = SessionSpec(model, offered.source, plan, *of, **more)
            self.sessions[model] = Sessions(session, clock)
            return
        spec = WorkerSpec(
            model=model,
            scheme=scheme,
            folder=offered.source,
            plan=offered.folder,
            root=settings.data,
            threads=threads,
            memory=settings.memory,
            allow_insecure=settings.allow_insecure,
            sha256=offered.sha256,
            device=settings.device,
        )
        planned = offered.files.prediction.stage_seconds
        limits: dict[str, Any] = {"waiting": settings.waiting, "planned": planned}
        pool = WorkerPool(spec, self.jobs.on_event, clock=clock, **limits)
        self.jobs.pools[spec.name] = pool

    def _spread(self, nodes: NodeSet) -> None:
        starts = nodes.starts()
        for pool in self.pools:
            pool.spread(starts)

    async def _follow(self, nodes: NodeSet) -> None:
        """Moves workers to places that come, and off those that go."""
        while True:
            self._spread(nodes)
            await nodes.changed()

    def _watch(self) -> None:
        for (model, scheme), pool in self.jobs.pools.items():
            waiting = partial(requests.waiting, self.ledger, model, scheme)
            self.metrics.watch_queue(model, scheme, waiting, pool)
        counts = {model: each.count for model, each in self.sessions.items()}
        self.metrics.watch(lambda: keys.count(self.ledger), lambda: self.layout.free, counts)


async def _repeat(seconds: float, act: Callable[[], Awaitable[None]], event: str) -> None:
    """Does something again and again; what fails is logged, and the next time tries again."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await act()
        except Exception:
            logs.error(event)
