"""The numbers of a feed-forward block that a bench runs: GELU between two products, or a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacita.approx.activations import gelu
from tacita.approx.fourier import FourierSpec, Table, fit
from tacita.errors import InputError

Array = NDArray[np.float64]

REACH = 0.98  # of GELU's interval and of [-1, 1] that values fill
TABLE_ERROR = 1e-4  # of the largest value
MOST_BYTES = 1 << 16  # of a table's file
TERMS = 3  # features that a row of whole numbers adds
TABLES: dict[str, Callable[[Array], Array]] = {
    "step": lambda x: np.where(x >= 0, 1.0, 0.0),
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0.0),
}


def read_table(name: str, interval: tuple[float, float]) -> Table:
    """Returns a function of `TABLES` at the whole numbers of an interval, or the table of a JSON file of
    pairs [x, f(x)]. Raises InputError for neither and for points that are not evenly spaced, FitError for
    what is no table."""
    if name in TABLES:
        points = np.arange(np.ceil(interval[0]), interval[1] + 1.0)
        return Table(tuple(points), tuple(map(float, TABLES[name](points))))
    try:
        with Path(name).open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        pairs = json.loads(text) if len(text) <= MOST_BYTES else None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"--table {name}: {error}", hint=f"{', '.join(TABLES)}, or a file") from error
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise InputError(
            f"--table {name}: no list of pairs of at most {MOST_BYTES} bytes", hint="[[x, y], ...]"
        )
    table = Table(tuple(x for x, _ in pairs), tuple(y for _, y in pairs))
    steps = np.diff(table.points)
    if np.ptp(steps) > 1e-9 * steps.max():
        raise InputError(f"--table {name}: points of uneven distances", hint="y is a whole number of steps")
    return table


@dataclass(frozen=True)
class LeafShape:
    """Sizes of the block, GELU's interval, and the error that its approximations may have."""

    tokens: int = 128
    hidden: int = 768
    inner: int = 3072
    interval: tuple[float, float] = (-8.0, 8.0)
    error: float = 1e-3

    def with_table(self, table: Table) -> LeafShape:
        """Returns the sizes for a table in place of GELU."""
        size = max(map(abs, table.values))
        return replace(self, interval=table.domain, error=TABLE_ERROR * size)


class Block:
    """The block's numbers: x and r in [-1, 1], y in the interval, z = GELU(y) or a table's value at y."""

    def __init__(self, shape: LeafShape, table: Table | None = None) -> None:
        rng = np.random.default_rng(1)
        self.shape, self.table = shape, table
        self.x = rng.uniform(-1.0, 1.0, (shape.tokens, shape.hidden))
        self.b1, self.b2 = (rng.uniform(-0.1, 0.1, size) for size in (shape.inner, shape.hidden))
        if table is None:
            lo, hi = shape.interval
            self.w1 = rng.standard_normal((shape.inner, shape.hidden))
            self.w1 *= REACH * (min(hi, -lo) - 0.1) / np.abs(self.x @ self.w1.T).max()
        else:
            self.x = np.where(self.x < 0.0, -1.0, 1.0)
            middle = (len(table.points) - 1) // 2
            self.b1[:] = table.points[middle]
            self.w1 = _whole_rows(rng, shape, middle) * (table.points[1] - table.points[0])
        self.y = self.x @ self.w1.T + self.b1
        self.z = gelu.exact(self.y) if table is None else table.numpy(self.y)
        self.w2 = rng.standard_normal((shape.hidden, shape.inner))
        self.w2 *= (REACH - 0.1) / np.abs(self.z @ self.w2.T).max()
        self.r = self.z @ self.w2.T + self.b2

    @cached_property
    def unit(self) -> float:
        """What z is divided by in slots."""
        return max(map(abs, self.shape.interval if self.table is None else self.table.values))

    def fit(self) -> FourierSpec:
        """Returns the function as a refresh computes it. Raises FitError."""
        shape = self.shape
        if self.table is not None:
            return self.table.fit("table", shape.error)
        spec = fit("gelu", gelu.exact, shape.interval, shape.interval, shape.error)
        assert isinstance(spec, FourierSpec)
        return spec

    def wrong(self, z: Array) -> int:
        """Counts values of a table that round to another one."""
        assert self.table is not None
        values = np.unique(self.table.values)
        nearest = values[np.searchsorted(0.5 * (values[1:] + values[:-1]), z)]
        return int(np.count_nonzero(nearest != self.z))


def _whole_rows(rng: np.random.Generator, shape: LeafShape, most: int) -> Array:
    """Returns (inner, hidden) whole numbers, whose absolute values sum up to `most` in each row."""
    rows = np.zeros((shape.inner, shape.hidden))
    shares = rng.multinomial(most, [1.0 / TERMS] * TERMS, shape.inner)
    at = np.arange(shape.inner)[:, None], rng.integers(shape.hidden, size=shares.shape)
    np.add.at(rows, at, rng.choice([-1.0, 1.0], shares.shape) * shares)
    return rows
