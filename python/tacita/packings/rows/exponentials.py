"""Exponentials of scores on rows: in a stage of their own, in the one that mixes them, or in both.

In the stage that mixes where they are as small as a bootstrap's noise, and their roots before it where that
leaves too few levels: see `early`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacita.approx.spec import Spec
from tacita.packings.arrays import Array
from tacita.packings.base import Operation
from tacita.packings.operations import exponentials
from tacita.packings.rows.early import Early
from tacita.slots.base import Backend, Ct
from tacita.slots.stage import Live


@dataclass(frozen=True)
class Exponentials:
    """name: of the attention. operation: what computes them, or their roots, from the scores."""

    name: str
    operation: Operation
    early: Early | None

    @staticmethod
    def of(name: str, spec: Spec, early: Early | None, seen: Sequence[Array] | None) -> Exponentials:
        """spec, seen: as of `operations.exponentials`."""
        if early is None:
            return Exponentials(name, exponentials(name, spec, seen), None)
        lift = 1.0 if early.squarings else early.lift
        return Exponentials(name, exponentials(name, early.root(spec), seen, lift), early)

    @property
    def stages(self) -> list[Operation]:
        """The operation, unless the stage that mixes does it."""
        return [] if self._within else [self.operation]

    @property
    def read(self) -> str:
        """The tensor that the stage that mixes reads."""
        return f"{self.name}.scores" if self._within else f"{self.name}.exponentials"

    def found(self, be: Backend, live: Live) -> tuple[Ct, ...]:
        """From that tensor, as they are mixed."""
        ready = (self.operation.run(be, live) if self._within else live)[f"{self.name}.exponentials"]
        return self.early.squared(be, ready) if self.early else ready

    @property
    def _within(self) -> bool:
        return self.early is not None and not self.early.squarings
