"""What `tacita.server.machines` uses of Ray, in this process: an actor is an object with a thread for
each of its groups of calls. Values go through pickle, as between machines."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
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

    def _call(self, group: str, name: str, given: Sequence[Any]) -> Future[Any]:
        self.calls.append(name)
        if self.lost:
            future = Future[Any]()
            future.set_exception(RayError("lost"))
            return future
        call = partial(getattr(self.actor, name), *pickle.loads(pickle.dumps(given)))
        return self._groups[group].submit(call)

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

    def wait(self, references: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        assert num_returns == 1
        done, _ = wait(references, return_when=FIRST_COMPLETED)
        return [each for each in references if each in done], []
