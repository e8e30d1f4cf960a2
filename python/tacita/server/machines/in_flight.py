"""Requests on their way to evaluators: a bounded number of them, each evaluated once or once more, none lost.

`spread` knows neither Ray nor ciphertexts: an `EvaluatorPool` says what happens, and it decides what is sent
where. The request that has waited longest goes to the evaluator with the fewest, and none waits at one that
works while others that are starting would have nothing to do. What an evaluator had when it was lost goes to
others, first in line. A request that takes evaluators down with it is given up after a few.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from tacita.errors import PeerError

DEPTH = 2  # requests held for each evaluator: one runs, one is there when that ends
MOST_LOSSES = 3  # evaluators that one request may take down

Given = TypeVar("Given", contravariant=True)  # a request as the client makes it
Sent = TypeVar("Sent")  # as the pool holds it
Reply = TypeVar("Reply", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True)
class Ready:
    """An evaluator that has its keys and weights, and waits."""

    at: str


@dataclass(frozen=True)
class Done(Generic[Reply]):
    """A request that has been evaluated."""

    at: str
    number: int
    reply: Reply


@dataclass(frozen=True)
class Lost:
    """An evaluator that is no more. why: in words, without names of machines' files."""

    at: str
    why: str


class EvaluatorPool(Protocol[Given, Sent, Reply]):
    """Evaluators somewhere, named by texts. size: those that are there or are to come."""

    @property
    def size(self) -> int: ...

    def hold(self, request: Given) -> Sent:
        """Puts a request where evaluators can get it, also a second one after a loss."""

    def submit(self, at: str, number: int, request: Sent) -> None:
        """Hands it to an evaluator that is ready. Returns at once."""

    def event(self, *, wait: bool) -> Ready | Done[Reply] | Lost | None:
        """Returns what has happened; None for nothing yet, or with `wait` where nobody is left."""


@dataclass
class _InFlight(Generic[Sent]):
    """Requests on their way. held: requests that are not answered, by number. waiting: those that nobody has.
    at: those of each evaluator that is ready, the running one first. losses: evaluators lost at a request;
    last: why the last one was."""

    held: dict[int, Sent] = field(default_factory=dict)
    waiting: deque[int] = field(default_factory=deque)
    at: dict[str, list[int]] = field(default_factory=dict)
    losses: dict[int, int] = field(default_factory=dict)
    answered: int = 0
    last: str = "none was there"

    def take(self, number: int, request: Sent) -> None:
        self.held[number] = request
        self.waiting.append(number)

    def assign(self, pool: EvaluatorPool[Any, Sent, Any]) -> None:
        """Hands out what waits while an evaluator has room; to those that work, but for one for each that is
        starting."""
        while self.waiting and self.at:
            least = min(self.at, key=lambda name: len(self.at[name]))
            has, starting = len(self.at[least]), pool.size - len(self.at)
            if has >= DEPTH or (has and len(self.waiting) <= starting):
                return
            number = self.waiting.popleft()
            self.at[least].append(number)
            pool.submit(least, number, self.held[number])

    def done(self, at: str, number: int) -> bool:
        """Takes an answer in. Returns whether it is the first one to the request."""
        if number in self.at.get(at, []):
            self.at[at].remove(number)
        self.answered += number in self.held
        return self.held.pop(number, None) is not None

    def lost(self, at: str, why: str) -> None:
        """Puts what the evaluator had back in front. Raises PeerError for a request that was running when one
        evaluator too many was lost."""
        numbers, self.last = self.at.pop(at, []), why
        for running in numbers[:1]:
            self.losses[running] = self.losses.get(running, 0) + 1
            if self.losses[running] >= MOST_LOSSES:
                raise PeerError(
                    f"request {running + 1}: {MOST_LOSSES} evaluators were lost at it, the last: {why}",
                    hint="do their machines have the memory that `tacita estimate` names?",
                )
        self.waiting.extendleft(reversed(numbers))


def spread(requests: Iterable[Given], pool: EvaluatorPool[Given, Sent, Reply]) -> Iterator[tuple[int, Reply]]:
    """Yields (number from 0, reply) of every request, as they are done; `in_order` puts them in order.

    requests: made one by one when there is room, so that at most DEPTH for each evaluator are held. Raises
    PeerError where no evaluator is left, or where one request lost MOST_LOSSES of them.
    """
    in_flight, more, pending = _InFlight[Sent](), enumerate(requests), True
    while pending or in_flight.held:
        room = pending and len(in_flight.held) < DEPTH * max(pool.size, 1)
        if room and (pending := (numbered := next(more, None)) is not None) and numbered:
            in_flight.take(numbered[0], pool.hold(numbered[1]))
            in_flight.assign(pool)
        yield from _take_events(in_flight, pool, wait=not room)


def _take_events(
    in_flight: _InFlight[Sent], pool: EvaluatorPool[Any, Sent, Reply], *, wait: bool
) -> Iterator[tuple[int, Reply]]:
    """Takes one event in, or without `wait` all that have happened."""
    while (event := pool.event(wait=wait)) is not None:
        match event:
            case Ready(at):
                in_flight.at[at] = []
            case Lost(at, why):
                in_flight.lost(at, why)
            case Done(at, number, reply):
                if in_flight.done(at, number):
                    yield number, reply
        in_flight.assign(pool)
        if wait:
            return
    if wait:
        raise PeerError(
            f"no evaluator is left after {in_flight.answered} answers: {in_flight.last}",
            hint="start nodes and run it again",
        )


def in_order(numbered: Iterable[tuple[int, T]]) -> Iterator[T]:
    """Yields the values of (number from 0, value) pairs by their numbers, each as soon as it can be."""
    early: dict[int, T] = {}
    due = 0
    for number, value in numbered:
        early[number] = value
        while due in early:
            yield early.pop(due)
            due += 1
