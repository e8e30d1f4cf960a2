"""What `tacita.server.machines` uses of Ray, in this process: an actor is an object with a thread for
each of its groups of calls. Values go through pickle, as between machines."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from inspect import isgeneratorfunction
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any


class RayError(Exception):
    """Ray's own."""


class Handle:
    """Of an actor. calls: names of those that were made. lost: the actor is no more."""

    def __init__(self, actor: Any) -> None:
        self.actor, self.calls, self.lost = actor, list[str](), False
        self._groups = {"": ThreadPoolExecutor(1), "watch": ThreadPoolExecutor(1)}

    def __getattr__(self, name: str) -> Any:
        def called(group: str) -> Callable[..., Future[Any]]:
            return lambda *given: self._call(group, name, given)

        return SimpleNamespace(
            remote=called(""),
            options=lambda concurrency_group: SimpleNamespace(remote=called(concurrency_group)),
        )

    def _call(self, group: str, name: str, given: Sequence[Any]) -> Any:
        self.calls.append(name)
        if self.lost:
            future = Future[Any]()
            future.set_exception(RayError("lost"))
            return future
        call = partial(getattr(self.actor, name), *pickle.loads(pickle.dumps(given)))
        if isgeneratorfunction(getattr(type(self.actor), name)):
            values = SimpleQueue[Future[Any] | None]()
            self._groups[group].submit(self._generate, call, values)
            return iter(values.get, None)
        return self._groups[group].submit(call)

    def _generate(self, call: Callable[[], Iterator[Any]], values: SimpleQueue[Future[Any] | None]) -> None:
        for value in call():
            values.put(future := Future[Any]())
            if self.lost:
                future.set_exception(RayError("lost"))
                break
            future.set_result(value)
        values.put(None)

    def end(self) -> None:
        for group in self._groups.values():
            group.shutdown()


class FakeRay:
    """In the place of the module."""

    exceptions = SimpleNamespace(RayError=RayError)

    def get(self, reference: Any) -> Any:
        if isinstance(reference, list):
            return [self.get(each) for each in reference]
        return pickle.loads(pickle.dumps(reference.result()))
