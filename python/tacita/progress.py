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


class Phases:
    """Reports phases, one after the other. shares: name and seconds of each where it was measured; a phase
    that tells its parts has its own pace as soon as that is known."""

    def __init__(self, progress: Callable[[Progress], None], shares: Sequence[tuple[str, float]]) -> None:
        self._progress = progress
        self._shares = list(shares)
        self._index = self._done = 0
        self._began = time.monotonic()

    def enter(self, phase: str, of: str = "") -> None:
        """A phase begins; "done" after the last. of: what it is a phase of, behind its name."""
        names = [name for name, _ in self._shares]
        name = f"{phase} {of}".strip()
        if name not in (*names, "done"):
            raise PlanError(f"planning has no phase {name!r}", hint=f"one of {', '.join(names)}")
        self._index = len(names) if name == "done" else names.index(name)
        self._done, self._began = 0, time.monotonic()
        self._report(0.0)

    def part(self, done: int, total: int) -> None:
        """The phase has come so far, and will go on as it did; a smaller `done` than before begins another
        pass."""
        if done < self._done:
            self._began = time.monotonic()
        elif done and self._index < len(self._shares):
            spent = time.monotonic() - self._began
            self._shares[self._index] = (self._shares[self._index][0], spent * total / done)
        self._done = done
        self._report(done / total)

    def _report(self, share: float) -> None:
        weights = [w for _, w in self._shares]
        inside = self._index < len(weights)
        done = sum(weights[: self._index]) + (share * weights[self._index] if inside else 0.0)
        name = self._shares[self._index][0] if inside else "done"
        self._progress(Progress(name, self._index, len(weights), done, sum(weights) - done))
