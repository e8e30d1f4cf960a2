"""The life of a request, from when all of it has come: waiting, running, and one of three ends.

The ledger says what is so; the dispatcher's queue and the progress bus follow from it, and are made anew when
the server starts. So a request survives kill -9 of the server, and goes on from its last resume point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tacita.errors import InputError, ResourceError, TacitaError
from tacita.plans import wire
from tacita.plans.files import Workdir, sha256_of
from tacita.plans.wire import State
from tacita.progress import Progress
from tacita.server import logs
from tacita.server.core.offers import Offers
from tacita.server.jobs.messages import (
    DEADLINE,
    INTERNAL,
    REFUSED,
    RESOURCES,
    STUCK,
    WORKER,
    Done,
    Evaluate,
    Failed,
    Passed,
)
from tacita.server.jobs.pool import Event, Job, WorkerPool
from tacita.server.metrics import Metrics
from tacita.server.sessions.messages import Used
from tacita.server.store import keys as ledger_keys
from tacita.server.store import requests, tokens, usage
from tacita.server.store.bodies import Layout, whole
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import RequestRow

if TYPE_CHECKING:
    from tacita.server.tracing import Tracing


class ProgressBus:
    """What is known of running requests at the moment, and events that wake those who watch them, for the
    event loop's thread. Nothing here survives a restart, and need not."""

    def __init__(self) -> None:
        self._progress, self._changes = dict[str, Progress](), dict[str, asyncio.Event]()

    def latest(self, id: str) -> Progress | None:
        """Returns the last report of a request that runs."""
        return self._progress.get(id)

    def publish(self, id: str, progress: Progress | None) -> None:
        """Stores a report of a request and wakes its watchers; None: it does not run, or has ended."""
        self._progress.pop(id, None)
        if progress is not None:
            self._progress[id] = progress
        if change := self._changes.pop(id, None):
            change.set()

    def wake_all(self) -> None:
        """Wakes all watchers: places in the queue moved, or the server ends."""
        for change in self._changes.values():
            change.set()
        self._changes.clear()

    def change(self, id: str) -> asyncio.Event:
        """Returns the event that is set at the request's next change."""
        return self._changes.setdefault(id, asyncio.Event())


WORDS = {
    DEADLINE: (504, "its deadline has passed", "ask again with a later one"),
    WORKER: (500, "its worker died too often", "the operator's log says why"),
    STUCK: (500, "its evaluation got stuck within a stage", "ask again; the operator's log says when"),
    INTERNAL: (500, "the evaluation failed", "the operator's log says why"),
    wire.NO_TEXT: (410, "its text is not kept any more", "begin a text, and send all of its rows"),
}


@dataclass
class Jobs:
    """The life of all requests, in the event loop's thread. pools: by model and scheme, whose listener is
    `on_event`."""

    ledger: Ledger
    layout: Layout
    bus: ProgressBus
    offers: Offers
    metrics: Metrics
    signer: Ed25519PrivateKey
    pools: dict[tuple[str, str], WorkerPool] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)  # when each that runs was started
    tracing: Tracing | None = None

    def reserved(self, row: RequestRow) -> Used:
        """Returns what a request takes of its client's quota before it is evaluated: the texts that it has
        room for, the seconds that its plan predicts."""
        offer = self.offers.named.get((row.model, row.scheme))
        return Used() if offer is None else Used(offer.plan.batch, seconds=offer.plan.predicted_seconds())

    def settle(self, row: RequestRow, used: Used) -> None:
        """Charges what the request used in place of what was reserved for it."""
        self.charge(row.client, used - self.reserved(row), row.came)

    def charge(self, client: str, used: Used, at: float | None = None) -> None:
        """Adds to what a client used on a day, see `usage.charge`. On a disk so full that this cannot be
        written down it is logged: what was answered is not lost for that."""
        try:
            self.ledger.insist(partial(usage.charge, self.ledger, client, **vars(used), at=at))
        except ResourceError:
            logs.warn("not-charged", client=client, **vars(used))

    def accept(self, row: RequestRow, text: Path | None = None) -> None:
        """Takes a request whose folder is complete and whose quota is reserved. text: of its rows, see
        `Evaluate`. Raises RefusedError when its queue is full: then nothing of it stays."""
        requests.add(self.ledger, row)
        try:
            self._submit(row, text)
        except TacitaError:
            self.forget(row.id)
            raise
        self._trace(row.id, "queue")
        ledger_keys.touch(self.ledger, row.client, row.key)
        logs.say("request", request=row.id, client=row.client, model=row.model, scheme=row.scheme)

    def resume(self) -> int:
        """Queues what an earlier server had not finished, but rows of texts, which ended with it; returns how
        many."""
        rows = requests.unfinished(self.ledger)
        for row in rows:
            if (offer := self.offers.named.get((row.model, row.scheme))) and offer.keeps:
                self.fail(row.id, wire.NO_TEXT, "", "")
                continue
            requests.change(self.ledger, row.id, state=State.waiting)
            if self.tracing:
                self.tracing.begin(row.id, client=row.client, model=row.model, scheme=row.scheme)
            self._trace(row.id, "queue")
            try:
                self._submit(row, None, resumed=True)
            except TacitaError as error:
                self.fail(row.id, REFUSED, str(error), error.hint)
        return len(rows)

    async def cancel(self, row: RequestRow) -> None:
        """Ends a request, if it has not ended, and forgets it: its folder goes once no worker works there."""
        pool = self.pools.get((row.model, row.scheme))
        if not row.state.final and pool is not None:
            if pool.cancel(row.id):
                self.metrics.ended(row.model, row.scheme, State.cancelled)
                self.trace_end(row.id, State.cancelled)
                logs.say("cancelled", request=row.id)
                self.settle(row, self._time_used(row.id))
                self.ledger.insist(partial(requests.drop, self.ledger, row.id))
            await pool.wait_ended(row.id)  # of another call's cancelling, too
            self.bus.wake_all()
        await self.remove(row.id)

    def open(self, id: str) -> bool:
        """Returns whether a request waits or runs, or a worker is still at one that was cancelled."""
        row = requests.by_id(self.ledger, id)
        return bool(row and not row.state.final) or any(pool.works(id) for pool in self.pools.values())

    async def wait_ended(self, id: str) -> None:
        """Waits until no worker works in the request's folder, or in that of its text."""
        await asyncio.gather(*(pool.wait_ended(id) for pool in self.pools.values()))

    async def remove(self, id: str) -> None:
        """Does what `forget` does, with the files removed in a thread of their own."""
        await asyncio.to_thread(self.layout.drop_request, id)
        self.forget(id)

    def forget(self, id: str) -> None:
        """Removes everything of a request; files first, whose room a full ledger needs."""
        self.layout.drop_request(id)
        self.ledger.insist(partial(requests.drop, self.ledger, id))
        self.bus.publish(id, None)

    def status(self, row: RequestRow) -> wire.Status:
        """Returns what the request's client is told."""
        match row.state:
            case State.waiting:
                place = self.pools[row.model, row.scheme].place(row.id)
                return wire.Status(id=row.id, state=row.state, place=place)
            case State.running if (now := self.bus.latest(row.id)) is not None:
                return wire.Status(
                    id=row.id,
                    state=row.state,
                    stage=now.stage[:200],
                    done=now.index,
                    total=now.total,
                    seconds_left=max(0.0, now.left),
                )
            case State.done:
                return self._done(row)
            case _:
                problem = wire.Problem.model_validate_json(row.problem) if row.problem else None
                return wire.Status(id=row.id, state=row.state, problem=problem)

    def on_event(self, id: str, event: Event) -> None:
        """Records how a request goes, as its pool says."""
        match event:
            case Passed():
                if event.progress.index < event.progress.total:
                    self._trace(id, event.progress.stage, 2)
                self.bus.publish(id, event.progress)
            case Done():
                self._finish(id, event)
            case Failed():
                self.fail(id, event.code, event.detail, event.hint)
            case State.running:
                requests.change(self.ledger, id, state=event)
                self.since[id] = self.ledger.clock()
                self._trace(id, "evaluate")
                self.bus.publish(id, None)
                self.bus.wake_all()
            case _:
                requests.change(self.ledger, id, state=State.waiting)
                self.since.pop(id, None)
                self._trace(id, "queue")
                self.bus.publish(id, None)
                logs.warn("requeued", request=id)

    def _finish(self, id: str, done: Done) -> None:
        """Signs the response, which lies in the request's folder, and charges the client for it. Where none
        lies there the request has failed."""
        path = Workdir(self.layout.request(id)).response
        row = requests.by_id(self.ledger, id)
        if row and not path.is_file():
            return self.fail(id, INTERNAL, "", "")
        self.since.pop(id, None)
        if row is None:  # cancelled at the last moment
            return self.layout.drop_request(id)
        response = sha256_of(path)
        signature = wire.signed(self.signer, row.plan, row.sha256, response).signature
        end = {"state": State.done, "ended": self.ledger.clock(), "seconds": done.seconds}
        answer = {"response": response, "response_bytes": path.stat().st_size, "signature": signature}
        self.ledger.insist(partial(requests.change, self.ledger, id, **end, **answer))
        self._charge_answer(row, done.seconds, done.figures)
        self.trace_end(id, State.done)
        self.bus.publish(id, None)

    def fail(self, id: str, code: str, detail: str, hint: str) -> None:
        """Records that the request has no response and will have none, and charges the time that it ran."""
        row, ran = requests.by_id(self.ledger, id), self._time_used(id)
        if row is None:
            return
        status, message, advice = WORDS.get(code, (507 if code == RESOURCES else 422, detail, hint))
        problem = wire.Problem(
            title="not answered",
            status=status,
            detail=message[: wire.MOST_TEXT],
            hint=advice[: wire.MOST_TEXT],
            code=code,
        )
        self.settle(row, ran)
        self.layout.drop_request(id)
        ended = {"ended": self.ledger.clock(), "problem": problem.model_dump_json()}
        self.ledger.insist(partial(requests.fail, self.ledger, row, **ended))
        self.metrics.ended(row.model, row.scheme, State.failed)
        self.trace_end(id, State.failed)
        self.bus.publish(id, None)
        logs.warn("failed", request=id, code=code)

    def _trace(self, id: str, name: str, depth: int = 1) -> None:
        if self.tracing:
            self.tracing.enter(id, name, depth)

    def trace_end(self, id: str, state: str) -> None:
        if self.tracing:
            self.tracing.ended(id, state=str(state))

    def _submit(self, row: RequestRow, text: Path | None, *, resumed: bool = False) -> None:
        if (pool := self.pools.get((row.model, row.scheme))) is None:
            raise InputError(
                f"no model {row.model!r:.60} by {row.scheme!r:.60}", hint="ask for what there is"
            )
        keys, folder = whole(self.layout.keys(row.client, row.key)), self.layout.request(row.id)
        order = Evaluate(row.id, row.key, keys.absolute(), folder.absolute(), text)
        group = tokens.of_id(self.ledger, row.client).group
        pool.submit(Job(order, group, row.deadline), resumed=resumed)

    def _done(self, row: RequestRow) -> wire.Status:
        assert row.response and row.signature  # as `finished` writes
        hashes = {"request": row.sha256, "response": row.response}
        signed = wire.Receipt(plan=row.plan, **hashes, signature=row.signature)
        return wire.Status(
            id=row.id, state=row.state, seconds=row.seconds, response_bytes=row.response_bytes, receipt=signed
        )

    def _time_used(self, id: str) -> Used:
        """Returns what a request that has no answer used: the seconds since it was started, if it was."""
        began = self.since.pop(id, None)
        return Used() if began is None else Used(seconds=max(0.0, self.ledger.clock() - began))

    def _charge_answer(self, row: RequestRow, seconds: float, figures: Mapping[str, float]) -> None:
        plan = self.offers.named[row.model, row.scheme].files
        self.settle(row, Used(plan.batch, seconds=seconds))
        self.metrics.ended(row.model, row.scheme, State.done)
        self.metrics.evaluated((row.model, row.scheme), seconds, figures, plan)
        planned = round(plan.predicted_seconds(), 3)
        logs.say("answered", request=row.id, seconds=round(seconds, 3), planned=planned)
