"""Tells how far a long operation is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tacita.errors import PlanError


@dataclass(frozen=True)
class Progress:
    """A report before each stage and once at the end. index: number of finished stages. seconds: spent so
    far. left: predicted seconds."""

    stage: str
    index: int
    total: int
    seconds: float
    left: float


def silent(_: Progress) -> None:
    """A report that nobody reads."""


PRIOR = 0.03  # share of the work that the prediction of its pace counts for, before any of it is done


class Phases:
    """Reports phases, one after the other. shares: name and predicted seconds of each. What is left is the
    work left, at the pace of the work done; a phase that tells no parts is done when the next begins.

    clock: seconds, the process's or a test's.
    """

    def __init__(
        self,
        progress: Callable[[Progress], None],
        shares: Sequence[tuple[str, float]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress, self._clock = progress, clock
        self._shares = list(shares)
        self._index, self._began = 0, clock()

    def enter(self, phase: str, of: str = "") -> None:
        """A phase begins; "done" after the last. of: what it is a phase of, behind its name."""
        names = [name for name, _ in self._shares]
        name = f"{phase} {of}".strip()
        if name not in (*names, "done"):
            raise PlanError(f"planning has no phase {name!r}", hint=f"one of {', '.join(names)}")
        self._index = len(names) if name == "done" else names.index(name)
        self.part(0, 1)

    def part(self, done: float, total: float) -> None:
        """The phase has come so far."""
        weights = [weight for _, weight in self._shares]
        inside = self._index < len(weights)
        work = sum(weights[: self._index]) + (done / total * weights[self._index] if inside else 0.0)
        whole, spent = sum(weights), self._clock() - self._began
        pace = (spent + PRIOR * whole) / (work + PRIOR * whole) if whole else 0.0
        name = self._shares[self._index][0] if inside else "done"
        self._progress(Progress(name, self._index, len(weights), spent, (whole - work) * pace))


class Passes:
    """Tells the parts of passes of which nobody knows how many there will be: the last takes what the others
    left, each of them half of what was left before.

    >>> passes = Passes(lambda done, total: print(done / total))
    >>> passes.following()(1, 2), passes.following(last=True)(1, 2)
    0.25
    0.75
    (None, None)
    """

    def __init__(self, progress: Callable[[float, float], None]) -> None:
        self._progress, self._left = progress, 1.0

    def following(self, *, last: bool = False) -> Callable[[int, int], None]:
        """Returns what the next pass is to be told by."""
        begin, share = 1.0 - self._left, self._left * (1.0 if last else 0.5)
        self._left -= share
        return lambda done, total: self._progress(begin + share * done / total, 1.0)
