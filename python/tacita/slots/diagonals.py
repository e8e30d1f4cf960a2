"""Rows of a table of integers by one number each, and which of them are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tacita.errors import ShapeError


def codes(table: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Computes one integer for each row of a table of integers, ordered as the rows are."""
    columns = table.astype(np.int64)
    low = columns.min(axis=0)
    result = np.zeros(len(columns), dtype=np.int64)
    for column, size in zip((columns - low).T, columns.max(axis=0) - low + 1, strict=True):
        result = result * size + column
    return result


def first_uses(codes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Returns (where each code stands first, in their order; for each code, which of these it is)."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse.reshape(-1)]


# The table: places of diagonals, and their numbers in parts that are made where a plan puts them.

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

    @property
    def real(self) -> bool:
        """Whether no number has an imaginary part."""

    @property
    def vectors(self) -> Table:
        """The vectors [rows, period], real or complex."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A part that is there. vectors: [rows, period]."""

    vectors: Table

    @cached_property
    def filled(self) -> Flags:
        """Marks the rows that are not zero."""
        return np.asarray(self.vectors.any(axis=1))

    @cached_property
    def real(self) -> bool:
        """Whether no number has an imaginary part."""
        return not (np.iscomplexobj(self.vectors) and self.vectors.imag.any())


@dataclass(frozen=True, eq=False)
class Subset:
    """Some rows of a part. rows: which."""

    part: Part
    rows: Flags

    @property
    def filled(self) -> Flags:
        """Which of these rows are not zero."""
        return self.part.filled[self.rows]

    @property
    def real(self) -> bool:
        """Whether no number of the part has an imaginary part."""
        return self.part.real

    @property
    def vectors(self) -> Table:
        """The vectors [rows, period], made anew."""
        return np.asarray(self.part.vectors[self.rows])


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
        """Returns a table as it is, or the rows of a mapping in its order. Raises ShapeError for none and for
        unequal periods."""
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
        """Builds a table of one number a place, zero where the row is: for what depends on places alone."""
        return Diagonals(places, (Rows(filled[:, None].astype(np.float64)),))

    @staticmethod
    def joined(tables: Sequence[Diagonals]) -> Diagonals:
        """Concatenates the rows of all tables, whose places differ."""
        places = np.concatenate([table.places for table in tables])
        return Diagonals(places, tuple(part for table in tables for part in table.parts))

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def filled(self) -> Flags:
        """Which rows are not zero."""
        return np.concatenate([part.filled for part in self.parts])

    def only(self, rows: Flags) -> Diagonals:
        """Returns some of the rows, whose numbers are made no earlier than those of all are."""
        edges = np.cumsum([len(part.filled) for part in self.parts])[:-1]
        parts = zip(self.parts, np.split(rows, edges), strict=True)
        return Diagonals(self.places[rows], tuple(Subset(part, of) for part, of in parts if of.any()))

    def turned(self, giants: Numbers) -> Table:
        """Returns the vectors, each rotated right by its giant, in place of the product's operands; real
        where all are."""
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


# Two real diagonals as the parts of a complex one, for products with two real vectors in one ciphertext.


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
        """Builds a table of halves. places: of the source's rows here, where two that meet, a real and an
        imaginary one, are added."""
        first, where = first_uses(codes(places))
        return Halves(places[first], source, where, imaginary)

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def filled(self) -> Flags:
        """Which rows are not zero."""
        filled = np.zeros(len(self), dtype=bool)
        filled[self.where[self.source.filled]] = True
        return filled

    def only(self, rows: Flags) -> Halves:
        """Returns some of the rows, as `Diagonals.only`."""
        halves, numbers = rows[self.where], np.cumsum(rows) - 1
        source, where = self.source.only(halves), numbers[self.where[halves]]
        return Halves(self.places[rows], source, where, self.imaginary[halves])

    def turned(self, giants: Numbers) -> Table:
        """Returns the vectors, each rotated right by its giant, real where all are."""
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


def nonzero(table: Diagonals | Halves) -> Diagonals | Halves:
    """Returns the rows that are not zero. Raises ShapeError where none is."""
    if not (filled := table.filled).any():
        raise ShapeError("linear: diagonals that are all zero", hint="give at least one weight")
    return table if filled.all() else table.only(filled)
