"""What `matmul` and `products` mean on slot vectors, and their shape checks, shared by the interpreters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacita.errors import LevelError, ShapeError
from tacita.slots.base import MAX_PERIOD, Ct, Operands, Parts

Values = npt.NDArray[Any]
CHUNK = 1 << 22  # numbers that a step of `periodic_matmul` stacks


def check_matmul(inputs: int, weights: Values, bias: Values | None) -> None:
    """Raises ShapeError unless weights are real (outputs, inputs, period), bias (outputs, period), and
    finite."""
    if inputs == 0 or weights.ndim != 3 or weights.shape[1] != inputs or 0 in weights.shape:
        raise ShapeError(
            f"matmul: weights of shape {weights.shape}, {inputs} ciphertexts",
            hint="(outputs, ciphertexts, period)",
        )
    period = weights.shape[2]
    if period > MAX_PERIOD or period & (period - 1):
        raise ShapeError(f"matmul: period {period}", hint=f"a power of two up to {MAX_PERIOD}")
    if bias is not None and bias.shape != (weights.shape[0], period):
        raise ShapeError(
            f"matmul: bias of shape {bias.shape}, weights {weights.shape}",
            hint="one value per output and lane",
        )
    if (
        np.iscomplexobj(weights)
        or not np.isfinite(weights).all()
        or (bias is not None and not np.isfinite(bias).all())
    ):
        raise ShapeError("matmul: weights that are not finite real numbers", hint="check the checkpoint")


def gather(xs: Operands, weights: Values, bias: Values | None) -> Sequence[Ct]:
    """Returns all operands of a product in the order of their columns, for backends that keep them anyway.
    Raises ShapeError as `check_matmul`, and unless parts have every operand once, at one level."""
    check_matmul(len(xs), weights, bias)
    if not isinstance(xs, Parts):
        return xs
    pairs = [pair for columns, cts in xs.each for pair in zip(columns, cts, strict=True)]
    by_column = dict(pairs)
    if not set(by_column) == set(range(len(pairs))) == set(range(len(xs))) or any(
        ct.level != pairs[0][1].level for ct in by_column.values()
    ):
        raise ShapeError(
            f"matmul: parts of {len(pairs)} operands at {len(by_column)} of {len(xs)} columns",
            hint="every column once, operands of one level",
        )
    return [by_column[column] for column in range(len(xs))]


def check_products(
    left: Sequence[Sequence[Any]], right: Sequence[Sequence[Any]], onto: tuple[int, ...] | None
) -> tuple[int, int]:
    """Returns (rows, columns). Raises ShapeError for ragged operands or accumulators of another shape."""
    rows, columns = {len(xs) for xs in left}, {len(ys) for ys in right}
    if not left or len(left) != len(right) or len(rows) != 1 or len(columns) != 1 or 0 in rows | columns:
        raise ShapeError(
            f"products: {len(left)} lists of {sorted(rows)} and {len(right)} lists of {sorted(columns)} "
            "operands",
            hint="as many lists on both sides, of one length each",
        )
    shape = (rows.pop(), columns.pop())
    if onto is not None and onto != shape:
        raise ShapeError(f"products: {shape} onto accumulators {onto}", hint="start new accumulators")
    return shape


def lowest(left: Sequence[Sequence[Any]], right: Sequence[Sequence[Any]], onto: int | None) -> int:
    """The level of the products. Raises LevelError for operands below the accumulators."""
    level = min(ct.level for side in (left, right) for cts in side for ct in cts)
    if onto is not None and level < onto:
        raise LevelError(
            f"products at level {level} onto level {onto}", hint="lower the first operands as well"
        )
    return level if onto is None else onto


def periodic_matmul(xs: Sequence[Values], weights: Values, bias: Values | None) -> Iterator[Values]:
    """The slot vectors of `matmul`, a block of outputs at a time."""
    period = weights.shape[2]
    table = np.stack(xs).reshape(len(xs), -1, period)
    step = max(1, CHUNK // table[0].size)
    for first in range(0, len(weights), step):
        block = np.empty((len(weights[first : first + step]), *table.shape[1:]), table.dtype)
        for lane in range(period):
            block[:, :, lane] = weights[first : first + step, :, lane] @ table[:, :, lane]
        if bias is not None:
            block += bias[first : first + step, None, :]
        yield from block.reshape(len(block), -1)


def sum_of_products(left: Sequence[Sequence[Values]], right: Sequence[Sequence[Values]]) -> Values:
    """Computes sum_c left[c][j] * right[c][i]: (rows, columns, slots)."""
    total: Values | None = None
    for xs, ys in zip(left, right, strict=True):
        part = np.stack(xs)[:, None, :] * np.stack(ys)[None, :, :]
        total = part if total is None else total + part
    assert total is not None  # check_products refuses empty operands
    return total


@dataclass(frozen=True)
class Rows:
    """The rows of tables and of those turned by some periods, and which of them stand where in rotated
    tables. values: (rows, periods). numbers: (positions, rotated tables)."""

    values: Values
    numbers: npt.NDArray[np.int64]

    @staticmethod
    def of(tables: Sequence[Values], babies: Sequence[tuple[int, int]]) -> Rows:
        """Rotates tables. babies: (number of the table, step) of each result."""
        positions, periods = tables[0].shape
        wholes = {(i, (baby // positions + more) % periods) for i, baby in babies for more in (0, 1)}
        starts = np.zeros((len(tables), periods), np.int64)
        for number, key in enumerate(sorted(wholes)):
            starts[key] = number * positions
        inputs, steps = np.array(babies).T
        places = np.arange(positions)[:, None] + steps
        values = [np.roll(tables[i], -turns, axis=1) if turns else tables[i] for i, turns in sorted(wholes)]
        numbers = starts[inputs, places // positions % periods] + places % positions
        return Rows(np.concatenate(values), numbers)
