"""The table: places of diagonals, and their numbers in parts that are made where a plan puts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tacita.errors import ShapeError

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Table: TypeAlias = npt.NDArray[Any]
ByPlace: TypeAlias = Mapping[tuple[int, int, int], Table]  # (output, input, rotation) -> periodic vector


class Part(Protocol):
    """Rows of a table that are made where they are asked for, so that a large map touches little memory
    twice."""

    @property
    def filled(self) -> Flags:
        """Which rows are not zero."""
        ...

    @property
    def real(self) -> bool:
        """Whether no number has an imaginary part."""
        ...

    @property
    def vectors(self) -> Table:
        """[rows, period], real or complex."""
        ...


@dataclass(frozen=True, eq=False)
class Rows:
    """A part that is there. vectors: [rows, period]."""

    vectors: Table

    @cached_property
    def filled(self) -> Flags:
        """See `Part`."""
        return np.asarray(self.vectors.any(axis=1))

    @cached_property
    def real(self) -> bool:
        """See `Part`."""
        return not (np.iscomplexobj(self.vectors) and self.vectors.imag.any())


@dataclass(frozen=True, eq=False)
class Diagonals:
    """Generalised diagonals as a table: out += v * rotate(x_input, rotation) for each row, no place twice.

    BERT-base has 300,000 of them, so what depends on places is done to the whole table at once, and numbers
    are moved once: from their part to where the plan has them.

    places: int64 [rows, 3] = (output, input, rotation). parts: the rows' vectors, in their order.
    """

    places: Numbers
    parts: tuple[Part, ...]

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
        return Diagonals(places, (Rows(np.stack(list(diagonals.values()))),))

    @staticmethod
    def outlined(places: Numbers, filled: Flags) -> Diagonals:
        """One number for each place, zero where the row is: for what depends on places alone."""
        return Diagonals(places, (Rows(filled[:, None].astype(np.float64)),))

    @staticmethod
    def joined(tables: Sequence[Diagonals]) -> Diagonals:
        """The rows of all tables, whose places differ."""
        places = np.concatenate([table.places for table in tables])
        return Diagonals(places, tuple(part for table in tables for part in table.parts))

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def filled(self) -> Flags:
        """Which rows are not zero."""
        return np.concatenate([part.filled for part in self.parts])

    @property
    def vectors(self) -> Table:
        """[rows, period], made anew."""
        return np.concatenate([part.vectors for part in self.parts])

    def nonzero(self) -> Diagonals:
        """The rows that are not zero. Raises ShapeError where none is."""
        kept = self.filled
        if not kept.any():
            raise ShapeError("linear: diagonals that are all zero", hint="give at least one weight")
        return self if kept.all() else Diagonals(self.places[kept], (Rows(self.vectors[kept]),))

    def turned(self, giants: Numbers) -> Table:
        """The vectors, each rotated right by its giant, in place of the product's operands; real where all
        are."""
        real, out, first = all(part.real for part in self.parts), np.empty((0, 0)), 0
        for part in self.parts:
            vectors = np.real(part.vectors) if real else part.vectors
            if not first:
                out = np.empty((len(self), vectors.shape[1]), np.float64 if real else np.complex128)
            rows = np.arange(first, first := first + len(vectors))
            turn(vectors, giants[rows], out, rows)
        return out


def turn(vectors: Table, giants: Numbers, out: Table, where: Numbers) -> None:
    """Writes each row, rotated right by its giant, to a row of `out`; rows that follow each other and share a
    giant are moved together."""
    by = giants % vectors.shape[1]
    edges = [0, *(np.flatnonzero(np.diff(by)) + 1).tolist(), len(by)]
    for first, last in pairwise(edges):
        shift, rows = int(by[first]), where[first:last]
        out[rows, shift:] = vectors[first:last, : vectors.shape[1] - shift]
        out[rows, :shift] = vectors[first:last, vectors.shape[1] - shift :]
