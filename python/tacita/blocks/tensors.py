"""Operations on tensors, in which `meaning` says what each block is.

Interpreters of this floor (floats, integers with the protocols' roundings, one party's shares, their costs)
get every block for nothing. Tensors have the shape (..., rows, columns). Weights belong to the interpreter,
which looks them up by the names in the declarations; so do bounds, by the names of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import EVERYWHERE, Dense, Norm, Positions, Powers, Reach, Relative, Rotary

T = TypeVar("T")  # a tensor of the interpreter
W = TypeVar("W")  # attention weights of the interpreter, normalised or not


class Operations(Protocol[T, W]):
    """Operations on tensors. Costs and errors of each are those of the interpreter; shapes are the same for
    all."""

    def enter(self, name: str, x: T | None = None) -> None:
        """Says that the node `name` begins, with x where that is known (progress, reports, records)."""

    def linear(self, x: T, maps: tuple[Dense, ...], add: T | None = None, *, opened: bool = False) -> T:
        """Applies several maps to one input, side by side, and adds `add` of the result's shape.

        (..., rows, inputs) -> (..., rows, sum of outputs). opened: the client learns the result next.
        """

    def add(self, x: T, y: T) -> T:
        """Returns x + y."""

    def scaled(self, x: T, factor: float) -> T:
        """Returns x times a public number."""

    def positions(self, x: T, p: Positions) -> T:
        """Adds rows that the party with the model knows."""

    def columns(self, x: T, widths: tuple[int, ...]) -> tuple[T, ...]:
        """Cuts the tensor into blocks of so many columns."""

    def rows(self, x: T, count: int) -> T:
        """Returns the first rows, or for a negative number the last ones."""

    def heads(self, x: T, count: int) -> T:
        """Splits columns into heads: (..., rows, count * d) -> (..., count, rows, d)."""

    def merge(self, x: T) -> T:
        """Inverts `heads`."""

    def turn(self, x: T, rotary: Rotary) -> T:
        """Turns each row of (..., heads, rows, d) by its position, which begins behind the past."""

    def with_past(self, name: str, keys: T, values: T) -> tuple[T, T]:
        """Returns keys and values (..., key heads, rows, d) of the node behind those of its past, all of
        which an interpreter that was given a past keeps for the next step; the same two where it was not."""

    def scores(self, queries: T, keys: T, name: str) -> T:
        """Multiplies queries (..., heads, rows, d) by keys (..., key heads, tokens, d): (..., heads, rows,
        tokens), not scaled. Neighbouring heads share keys where these have fewer (`regrouped`)."""

    def biased(self, scores: T, relative: Relative, name: str) -> T:
        """Adds what the distance of key and query adds to a score."""

    def softmax(self, scores: T, name: str, reach: Reach = EVERYWHERE) -> W:
        """Returns the weights of the real keys within reach of each query."""

    def powers(self, scores: T, variant: Powers, name: str) -> W:
        """Returns the weights of the real keys, by powers instead of exponentials."""

    def mix(self, weights: W, values: T, name: str) -> T:
        """Multiplies weights (..., heads, rows, tokens) by values (..., key heads, tokens, d): (..., heads,
        rows, d)."""

    def function(self, x: T, kind: str, name: str) -> T:
        """Computes a function by its name, element by element. Raises PlanError for one that the interpreter
        lacks."""

    def times(self, x: T, y: T, name: str) -> T:
        """Returns x * y, element by element: a gate."""

    def norm(self, x: T, norm: Norm, name: str) -> T:
        """Normalises each row."""

    def mean(self, x: T, name: str, *, opened: bool = False) -> T:
        """Averages the rows of real tokens: (..., 1, columns). opened: the client learns the result next."""


# Rearrangements that every interpreter on arrays does alike: no arithmetic, no messages.

D = TypeVar("D", bound=np.generic)


def columns(x: NDArray[D], widths: Sequence[int]) -> tuple[NDArray[D], ...]:
    """Cuts an array into blocks of so many columns."""
    return tuple(np.split(x, np.cumsum(widths)[:-1], axis=-1))


def rows(x: NDArray[D], count: int) -> NDArray[D]:
    """Returns the first rows, or for a negative number the last ones."""
    return x[..., :count, :] if count >= 0 else x[..., count:, :]


def regrouped(x: NDArray[D], heads: int) -> NDArray[D]:
    """Reshapes (..., more heads, rows, d) to (..., heads, all rows of neighbours, d), or back: heads of
    queries that share keys become the rows of one head, whose scores are then one product.

    >>> regrouped(np.zeros((6, 5, 4)), 2).shape
    (2, 15, 4)
    """
    return x if x.shape[-3] == heads else x.reshape(*x.shape[:-3], heads, -1, x.shape[-1])


def heads(x: NDArray[D], count: int) -> NDArray[D]:
    """Splits columns into heads: (..., rows, count * d) -> (..., count, rows, d)."""
    return np.moveaxis(x.reshape(*x.shape[:-1], count, -1), -2, -3)


def merge(x: NDArray[D]) -> NDArray[D]:
    """Inverts `heads`."""
    moved: NDArray[Any] = np.moveaxis(x, -3, -2)
    return moved.reshape(*moved.shape[:-2], -1)
