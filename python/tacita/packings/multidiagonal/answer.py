"""From the last tensor to the ciphertexts of the answer: by way of a vector, laid out as `response` says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tacita.packings.multidiagonal.first_token import mean_map
from tacita.packings.multidiagonal.layout import Features
from tacita.packings.vector.layout import CyclicMap
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean over tokens, as a vector. layout: of what is averaged."""

    layout: Features

    @cached_property
    def total(self) -> CyclicMap:
        """Made when it is needed: a vector for every feature."""
        return mean_map(self.layout)

    def apply(self, be: Backend, x: Cts, masks: Cts) -> Cts:
        """masks: the first is 1/length at the real tokens. Two levels."""
        return self.total.apply(be, [be.mul(ct, masks[0]) for ct in x])
