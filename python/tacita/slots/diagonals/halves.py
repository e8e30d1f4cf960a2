"""Two real diagonals as the parts of a complex one, for products with two real vectors in one ciphertext."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacita.slots.diagonals.codes import distinct
from tacita.slots.diagonals.table import Diagonals, Flags, Numbers, Rows, Table, turn


@dataclass(frozen=True, eq=False)
class Halves:
    """A table of the halves of a real one's rows: v becomes v/2 or, where `imaginary`, -iv/2.

    where: for each row of the source, its row here. imaginary: whether it is an imaginary part.
    """

    places: Numbers
    source: Diagonals
    where: Numbers
    imaginary: Flags

    @staticmethod
    def of(source: Diagonals, places: Numbers, imaginary: Flags) -> Halves:
        """places: of the source's rows here, where two that meet, a real and an imaginary one, are added."""
        first, where = distinct(places)
        return Halves(places[first], source, where, imaginary)

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def filled(self) -> Flags:
        """Which rows are not zero."""
        filled = np.zeros(len(self), dtype=bool)
        filled[self.where[self.source.filled]] = True
        return filled

    @property
    def vectors(self) -> Table:
        """[rows, period], made anew, real where all are."""
        return self.turned(np.zeros(len(self), np.int64))

    def nonzero(self) -> Diagonals | Halves:
        """The rows that are not zero. Raises ShapeError where none is."""
        return self if self.filled.all() else Diagonals(self.places, (Rows(self.vectors),)).nonzero()

    def turned(self, giants: Numbers) -> Table:
        """See `Diagonals.turned`."""
        kind = np.complex128 if self.source.filled[self.imaginary].any() else np.float64
        out, first = np.zeros((0, 0)), 0
        for part in self.source.parts:
            vectors = np.real(part.vectors)
            if not first:
                out = np.zeros((len(self), vectors.shape[1]), kind)
            rows = slice(first, first := first + len(vectors))
            self._add(vectors, rows, giants, out)
        return out

    def _add(self, vectors: Table, rows: slice, giants: Numbers, out: Table) -> None:
        """Puts rows of the source where they belong."""
        where, imaginary = self.where[rows], self.imaginary[rows]
        sides = [(~imaginary, 0.5, out.real), (imaginary, -0.5, out.imag)]
        for side, factor, target in sides if np.iscomplexobj(out) else sides[:1]:
            if side.all():
                turn(factor * vectors, giants[where], target, where)
            elif side.any():
                turn(factor * vectors[side], giants[where[side]], target, where[side])
