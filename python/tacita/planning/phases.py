"""Progress of planning: each phase has a share, its seconds on the default model at full size; calibration,
which may take many texts, its own pace as soon as that is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from tacita.errors import PlanError
from tacita.plans.scheme import BUMBLEBEE, scheme_named
from tacita.run.progress import Progress

CALIBRATE = 6.0
ONE: Mapping[str, float] = {"fit": 0.3, "place": 0.5, "predict": 8.0}
BATCH: Mapping[str, float] = {"fit": 0.3, "place": 19.0, "predict": 1.7}  # hundreds of ciphertexts, few slots


class Phases:
    """Reports the phases of planning `schemes`, one after the other; each kind of them is calibrated before
    its first.

    schemes: names, each with a packing behind it or alone.
    """

    def __init__(self, progress: Callable[[Progress], None], schemes: Sequence[str]) -> None:
        self._progress = progress
        self._shares: list[tuple[str, float]] = []
        for scheme in schemes:
            kind, shares = _shares(scheme.partition(" ")[0])
            measured = (f"calibrate {kind}", CALIBRATE)
            self._shares += [] if measured in self._shares else [measured]
            self._shares += [(f"{phase} {scheme}", share) for phase, share in shares.items()]
        self._index = self._done = 0
        self._began = time.monotonic()

    def enter(self, phase: str, scheme: str = "") -> None:
        """A phase begins; "done" after the last."""
        names = [name for name, _ in self._shares]
        name = f"{phase} {scheme}".strip()
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
        elif self._index < len(self._shares):
            self._shares[self._index] = (
                self._shares[self._index][0],
                (time.monotonic() - self._began) * total / done,
            )
        self._done = done
        self._report(done / total)

    def _report(self, share: float) -> None:
        weights = [w for _, w in self._shares]
        inside = self._index < len(weights)
        done = sum(weights[: self._index]) + (share * weights[self._index] if inside else 0.0)
        name = self._shares[self._index][0] if inside else "done"
        self._progress(Progress(name, self._index, len(weights), done, sum(weights) - done))


def phase_label(scheme: str, packing: str | None) -> str:
    """By which the phases of a scheme on one of its packings are told."""
    return f"{scheme} {packing}" if packing else scheme


def _shares(scheme: str) -> tuple[str, Mapping[str, float]]:
    """What is calibrated for a scheme, and its phases after that: two parties fit and place nothing."""
    if scheme == BUMBLEBEE:
        return BUMBLEBEE, {}
    return ("batch", BATCH) if scheme_named(scheme).several else ("rows", ONE)
