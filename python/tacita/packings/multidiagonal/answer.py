"""From the last tensor to the ciphertexts of the answer: by way of a vector, laid out as `response` says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tacita.packings.arrays import Array
from tacita.packings.multidiagonal.first_token import mean_map
from tacita.packings.multidiagonal.layout import Features
from tacita.packings.multidiagonal.response import DiagonalResponse
from tacita.packings.vector.answer import Answering, vector_features, vector_logits
from tacita.packings.vector.layout import CyclicMap, VectorLayout
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

    def apply(self, be: Backend, x: Cts, mask: Ct) -> Cts:
        """mask: 1/length at the real tokens. Two levels."""
        return self.total.apply(be, [be.mul(ct, mask) for ct in x])


def answering(
    dense: tuple[Array, Array] | None, vector: VectorLayout, entry: float, bound: float
) -> Answering:
    """Of a vector: its features, or the logits of a dense map. entry, bound: of the vector and of the
    logits."""
    if dense is None:
        return vector_features(DiagonalResponse, vector, entry)
    return vector_logits(DiagonalResponse, *dense, vector, entry, bound)
