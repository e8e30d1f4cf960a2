"""Evaluators as Ray's actors: one at each site, what they are given once, what has become of them.

Keys and weights are put into Ray's object store once, and each node fetches them once: the driver owns both,
so they outlive every node but its own, and an evaluator that is started again finds them there. So do
requests on their way. Nothing but bytes, texts and numbers is pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from typing import Any

from tacita.cluster.connect import Site
from tacita.cluster.evaluator import Bytes, Evaluated, Evaluator, Failed, Kit
from tacita.cluster.flight import Done, Lost, Ready

RESTARTS = 2  # of an evaluator at one site
CLOSING = 5.0  # seconds for evaluators to remove their files


@dataclass(frozen=True)
class _Actor:
    """handle: Ray's. site: where it is. restarts: that went before it there."""

    handle: Any
    site: Site
    restarts: int


class Actors:
    """A `flight.Pool` of evaluators on Ray.

    ray: the module, connected. An evaluator that is lost is started again at its site, a few times; on a node
    that is gone that fails, and its requests are evaluated elsewhere.
    """

    def __init__(self, ray: Any, sites: Sequence[Site], kit: Kit, keys: Bytes, weights: Bytes) -> None:
        self._ray, self._kit = ray, kit
        self._placed = ray.put(keys), ray.put(weights)
        self._actors: dict[str, _Actor] = {}
        self._expected: dict[Any, tuple[str, int | None]] = {}  # None: ready, or not
        self._names = count(1)
        for site in sites:
            self._begin(site)

    @property
    def size(self) -> int:
        """Evaluators that are there or are starting."""
        return len(self._actors)

    def hold(self, request: Bytes) -> Any:
        """A reference to the request in the driver's store."""
        return self._ray.put(request)

    def submit(self, at: str, number: int, request: Any) -> None:
        """See `flight.Pool`."""
        self._expected[self._actors[at].handle.evaluate.remote(request)] = at, number

    def event(self, *, wait: bool) -> Ready | Done[Evaluated] | Lost | None:
        """See `flight.Pool`."""
        if not self._expected:
            return None
        done, _ = self._ray.wait(list(self._expected), num_returns=1, timeout=None if wait else 0)
        return self._event(done[0]) if done else None

    def close(self, *, files: bool) -> None:
        """Ends all evaluators. files: waits a moment for them to remove theirs."""
        closed = [actor.handle.close.remote() for actor in self._actors.values() if files]
        if closed:
            self._ray.wait(closed, num_returns=len(closed), timeout=CLOSING)
        for actor in self._actors.values():
            self._ray.kill(actor.handle)
        self._actors.clear()
        self._expected.clear()

    def _begin(self, site: Site, restarts: int = 0) -> None:
        there = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        how = {"num_cpus": site.cores, "scheduling_strategy": there(site.node, soft=False)}
        made = self._ray.remote(Evaluator).options(**how)
        handle, name = made.remote(site.cores), f"{next(self._names)} at {site.node}"
        self._actors[name] = _Actor(handle, site, restarts)
        self._expected[handle.prepare.remote(self._kit, *self._placed)] = name, None

    def _event(self, reference: Any) -> Ready | Done[Evaluated] | Lost:
        at, number = self._expected.pop(reference)
        try:
            reply = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:  # a defect of ours, on the node
            return self._lost(at, f"{type(error.cause).__name__} at the node")
        except self._ray.exceptions.RayError as error:
            return self._lost(at, type(error).__name__)
        if isinstance(reply, Failed):
            return self._lost(at, f"{reply.why} ({reply.hint})")
        if number is None:
            return Ready(at)
        return Done(at, number, reply)

    def _lost(self, at: str, why: str) -> Lost:
        """Forgets it and what it was to answer; begins another one in its place."""
        actor = self._actors.pop(at)
        self._expected = {ref: whose for ref, whose in self._expected.items() if whose[0] != at}
        self._ray.kill(actor.handle)
        if actor.restarts < RESTARTS:
            self._begin(actor.site, actor.restarts + 1)
        return Lost(at, why)
