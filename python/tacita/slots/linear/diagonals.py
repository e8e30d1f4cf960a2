"""Generalised diagonals of a slot-linear map, as one table: places, and a row of numbers for each.

BERT-base has 300,000 of them, so all that is done with them is done to the whole table at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacita.errors import ShapeError

Table: TypeAlias = npt.NDArray[Any]
Places: TypeAlias = npt.NDArray[np.int64]
ByPlace: TypeAlias = Mapping[tuple[int, int, int], Table]  # (output, input, rotation) -> periodic vector


@dataclass(frozen=True, eq=False)
class Diagonals:
    """out += v * rotate(x_input, rotation) for each row. No place stands twice.

    places: int64 [rows, 3] = (output, input, rotation). vectors: [rows, period], real or complex.
    """

    places: Places
    vectors: Table

    @staticmethod
    def of(diagonals: Diagonals | ByPlace) -> Diagonals:
        """A table as it is, or the rows of a mapping in its order. Raises ShapeError for none and for unequal
        periods."""
        if isinstance(diagonals, Diagonals):
            return diagonals
        shapes = {np.shape(v) for v in diagonals.values()}
        if len(shapes) != 1 or any(len(shape) != 1 for shape in shapes):
            raise ShapeError(
                f"linear: diagonals have shapes {sorted(shapes)}", hint="give vectors of one common period"
            )
        places = np.array(list(diagonals), dtype=np.int64).reshape(-1, 3)
        return Diagonals(places, np.stack(list(diagonals.values())))

    @staticmethod
    def joined(parts: Sequence[Diagonals]) -> Diagonals:
        """The rows of all parts, whose places differ."""
        return Diagonals(
            np.concatenate([part.places for part in parts]), np.concatenate([part.vectors for part in parts])
        )

    def __len__(self) -> int:
        return len(self.places)

    def nonzero(self) -> Diagonals:
        """The rows that are not zero. Raises ShapeError where none is."""
        kept = self.vectors.any(axis=1)
        if not kept.any():
            raise ShapeError("linear: diagonals that are all zero", hint="give at least one weight")
        return self if kept.all() else Diagonals(self.places[kept], self.vectors[kept])

    def halves(self, places: Places, imaginary: Table) -> Diagonals:
        """The rows v, real, as v/2 or, where `imaginary`, as -iv/2, moved to `places`, where two that meet
        are added."""
        first, where = _distinct(places)
        vectors = np.zeros((len(first), self.vectors.shape[1]), np.complex128)
        vectors.real[where[~imaginary]] = 0.5 * self.vectors[~imaginary]
        vectors.imag[where[imaginary]] = -0.5 * self.vectors[imaginary]
        return Diagonals(places[first], vectors)

    def outline(self) -> Diagonals:
        """The same places with one number each, for what depends on places alone."""
        return Diagonals(self.places, np.ones((len(self), 1)))


def codes(table: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """One integer for each row of a table of integers, ordered as the rows are."""
    columns = table.astype(np.int64)
    low = columns.min(axis=0)
    found = np.zeros(len(columns), dtype=np.int64)
    for column, size in zip((columns - low).T, columns.max(axis=0) - low + 1, strict=True):
        found = found * size + column
    return found


def _distinct(places: Places) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """(rows where each place stands first, in their order; for each row, which of these it is)."""
    _, first, inverse = np.unique(codes(places), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse.reshape(-1)]
