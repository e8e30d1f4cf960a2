"""Evaluators as Ray's actors: one at each site, what they are given once, what has become of them.

Weights and requests are in the driver's object store, from where each node fetches them: they outlive every
node but its own. Keys go in pieces (`placing`), each fetched by a node once and forgotten then; an evaluator
that is started again is sent them again, out of the client's file. Nothing but bytes, texts and numbers is
pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from typing import Any

from tacita.server.machines.connect import Site
from tacita.server.machines.evaluator import Bytes, Evaluated, Evaluator, Failed, Kit
from tacita.server.machines.in_flight import Done, Lost, Ready
from tacita.server.machines.placing import Placing

RESTARTS = 2  # of an evaluator at one site
CLOSING = 5.0  # seconds for evaluators to remove their files
PREPARE, TAKE, LOAD, EVALUATE = "prepare", "take", "load", "evaluate"  # calls of an `Evaluator`


@dataclass(frozen=True)
class _Actor:
    """An evaluator as Ray's actor. handle: Ray's. site: where it is. placing: of its keys. restarts:
    evaluators that went before it there."""

    handle: Any
    site: Site
    placing: Placing
    restarts: int


@dataclass(frozen=True)
class _Call:
    """A call that has not returned. at: the evaluator. number: of the request, or a piece's first byte."""

    at: str
    what: str
    number: int = 0


class Actors:
    """A `in_flight.EvaluatorPool` of evaluators on Ray.

    ray: the module, connected. keys: a file's bytes, read as they are sent. An evaluator that is lost is
    started again at its site, a few times; on a node that is gone that fails, and its requests are evaluated
    elsewhere.
    """

    def __init__(self, ray: Any, sites: Sequence[Site], kit: Kit, keys: Bytes, weights: Bytes) -> None:
        self._ray, self._kit, self._keys = ray, kit, keys
        self._weights = ray.put(weights)
        self._actors: dict[str, _Actor] = {}
        self._calls: dict[Any, _Call] = {}
        self._numbers = count(1)
        self._begin(sites)

    @property
    def size(self) -> int:
        """Returns the number of evaluators that are there or are starting."""
        return len(self._actors)

    def hold(self, request: Bytes) -> Any:
        """Puts a request in the driver's store, and returns a reference to it."""
        return self._ray.put(request)

    def submit(self, at: str, number: int, request: Any) -> None:
        """Calls an evaluator with a request, see `in_flight.EvaluatorPool.submit`."""
        self._call(_Call(at, EVALUATE, number), request)

    def event(self, *, wait: bool) -> Ready | Done[Evaluated] | Lost | None:
        """Returns what has happened, see `in_flight.EvaluatorPool.event`. Sends the keys that are due."""
        while self._calls:
            done, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=None if wait else 0)
            if not done:
                return None
            if (event := self._event(done[0])) is not None:
                return event
        return None

    def close(self, *, files: bool) -> None:
        """Ends all evaluators. files: waits a moment for them to remove theirs."""
        closed = [actor.handle.close.remote() for actor in self._actors.values() if files]
        if closed:
            self._ray.wait(closed, num_returns=len(closed), timeout=CLOSING)
        for actor in self._actors.values():
            self._ray.kill(actor.handle)
        self._actors.clear()
        self._calls.clear()

    def _begin(self, sites: Sequence[Site], restarts: int = 0) -> None:
        """Starts an evaluator at each site; they are sent the keys together."""
        names = [f"{next(self._numbers)} at {site.node}" for site in sites]
        placing = Placing(names, self._keys.size)
        for name, site in zip(names, sites, strict=True):
            self._actors[name] = _Actor(self._create(site), site, placing, restarts)
            self._call(_Call(name, PREPARE), self._kit, self._weights)
        self._place(placing)

    def _create(self, site: Site) -> Any:
        there = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        how = {"num_cpus": site.cores, "scheduling_strategy": there(site.node, soft=False)}
        return self._ray.remote(Evaluator).options(**how).remote(site.cores)

    def _call(self, call: _Call, *arguments: Any) -> None:
        self._calls[getattr(self._actors[call.at].handle, call.what).remote(*arguments)] = call

    def _place(self, placing: Placing) -> None:
        """Sends the pieces of keys that are due; behind the last one each evaluator loads the keys: its calls
        are answered in their order."""
        pieces = placing.due()
        for piece in pieces:
            there = self._ray.put(self._keys[piece])
            for name in placing.names:
                self._call(_Call(name, TAKE, piece.start), piece.start, there)
        if pieces and placing.sent:
            for name in placing.names:
                self._call(_Call(name, LOAD))

    def _event(self, reference: Any) -> Ready | Done[Evaluated] | Lost | None:
        """Returns what a call that has returned comes to; None for a step before the evaluator is ready."""
        call = self._calls.pop(reference)
        try:
            reply = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:  # a defect of ours, on the node
            return self._lost(call.at, f"{type(error.cause).__name__} at the node")
        except self._ray.exceptions.RayError as error:
            return self._lost(call.at, type(error).__name__)
        if isinstance(reply, Failed):
            return self._lost(call.at, f"{reply.why} ({reply.hint})")
        if call.what == EVALUATE:
            return Done(call.at, call.number, reply)
        if call.what == TAKE:
            placing = self._actors[call.at].placing
            placing.arrived(call.at, call.number)
            self._place(placing)
        return Ready(call.at) if call.what == LOAD else None

    def _lost(self, at: str, why: str) -> Lost:
        """Forgets an evaluator and what it was to answer; starts another one in its place."""
        actor = self._actors.pop(at)
        self._calls = {ref: call for ref, call in self._calls.items() if call.at != at}
        self._ray.kill(actor.handle)
        actor.placing.lost(at)
        self._place(actor.placing)
        if actor.restarts < RESTARTS:
            self._begin([actor.site], actor.restarts + 1)
        return Lost(at, why)
