"""`plain`: numpy vectors with strictly tracked levels. It defines what a circuit means.

It raises LevelError, ShapeError and KeyMissingError exactly where `ckks` would, and nothing is approximate
but float64 itself. Values stay float64 as long as they are real.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacita.errors import KeyMissingError, LevelError, ShapeError
from tacita.slots.base import Kind, Operands, Vector
from tacita.slots.bootstraps import (
    INPUT_LEVEL,
    CoefficientMatrix,
    apply_harmonics,
    check_product,
    contents,
    level_after,
    product_level,
)
from tacita.slots.linear import LinearPlan, sum_of_terms
from tacita.slots.matrices import Rows, check_products, gather, lowest, periodic_matmul, sum_of_products
from tacita.slots.stage import cached_weakly

Values = npt.NDArray[Any]
MAX_INT = 1 << 20
CACHE_SIZE = 64  # tables of linear maps


@dataclass(frozen=True, eq=False)
class PlainCt:
    """A slot vector and its level."""

    values: Values
    level: int


@dataclass(frozen=True, eq=False)
class PlainProducts:
    """Accumulators of `products`: values (rows, columns, slots)."""

    values: Values
    level: int


def spend(op: str, level: int, levels: int = 1) -> int:
    """The level after `op`. Raises LevelError when fewer than `levels` are left."""
    if level < levels:
        raise LevelError(
            f"{op} needs {levels} level(s), {level} left", hint="bootstrap an operand before this stage"
        )
    return level - levels


def check_period(op: str, v: Vector, slots: int) -> None:
    """Raises ShapeError unless v is one axis whose length divides `slots`."""
    if v.ndim != 1 or v.size == 0 or slots % v.size:
        raise ShapeError(
            f"{op}: vector of shape {v.shape}, {slots} slots", hint="its length must divide the slots"
        )


def check_int(k: int) -> None:
    """Raises ShapeError for a factor beyond what headroom allows."""
    if abs(k) > MAX_INT:
        raise ShapeError(
            f"mul_int by {k}, at most {MAX_INT} in absolute value", hint="use mul_const (one level)"
        )


def check_drop(level: int, target: int) -> None:
    """Raises LevelError when a drop would go up or below zero."""
    if not 0 <= target <= level:
        raise LevelError(
            f"drop_to level {target} from level {level}", hint="levels rise only by bootstrapping"
        )


def poly_depth(coeffs: Vector) -> int:
    """Returns ceil(log2(degree + 1)), at least one. Raises ShapeError below degree 1."""
    if coeffs.ndim != 1 or len(coeffs) < 2:
        raise ShapeError(f"poly: coefficients of shape {coeffs.shape}", hint="give a series of degree >= 1")
    return (len(coeffs) - 1).bit_length()


class PlainBackend:
    """Computes on slot vectors in the clear. rotations: steps that have keys (None: all); conjugation always
    has one."""

    def __init__(self, slots: int, max_level: int = 13, rotations: frozenset[int] | None = None) -> None:
        self.slots = slots
        self.max_level = max_level
        self.rotations = None if rotations is None else frozenset(k % slots for k in rotations)

    def encrypt(self, values: Values, level: int | None = None) -> PlainCt:
        """Returns a fresh handle of periodic values at `level` (default: the top)."""
        v = _real(np.asarray(values))
        check_period("encrypt", v, self.slots)
        return PlainCt(np.tile(v, self.slots // v.size), self.max_level if level is None else level)

    def decrypt(self, ct: PlainCt) -> Values:
        """Returns all slots, complex128."""
        return ct.values.astype(np.complex128)

    def level(self, ct: PlainCt) -> int:
        return ct.level

    def add(self, a: PlainCt, b: PlainCt) -> PlainCt:
        return PlainCt(_real(a.values + b.values), min(a.level, b.level))

    def sub(self, a: PlainCt, b: PlainCt) -> PlainCt:
        return PlainCt(a.values - b.values, min(a.level, b.level))

    def neg(self, a: PlainCt) -> PlainCt:
        return PlainCt(-a.values, a.level)

    def add_const(self, a: PlainCt, c: complex) -> PlainCt:
        return PlainCt(a.values + _scalar(c), a.level)

    def add_vector(self, a: PlainCt, v: Vector) -> PlainCt:
        check_period("add_vector", v, self.slots)
        return PlainCt(_periodic(np.add, a.values, _real(v)), a.level)

    def mul(self, a: PlainCt, b: PlainCt) -> PlainCt:
        return PlainCt(a.values * b.values, spend("mul", min(a.level, b.level)))

    def square(self, a: PlainCt) -> PlainCt:
        return PlainCt(a.values * a.values, spend("square", a.level))

    def dot(self, xs: Sequence[PlainCt], ys: Sequence[PlainCt]) -> PlainCt:
        check_dot(len(xs), len(ys))
        level = spend("dot", min(ct.level for ct in (*xs, *ys)))
        total = xs[0].values * ys[0].values
        for x, y in zip(xs[1:], ys[1:], strict=True):
            total = total + x.values * y.values
        return PlainCt(total, level)

    def mul_const(self, a: PlainCt, c: complex) -> PlainCt:
        return PlainCt(a.values * _scalar(c), spend("mul_const", a.level))

    def mul_int(self, a: PlainCt, k: int) -> PlainCt:
        check_int(k)
        return PlainCt(a.values * k, a.level)

    def mul_i(self, a: PlainCt) -> PlainCt:
        return PlainCt(a.values * 1j, a.level)

    def mul_vector(self, a: PlainCt, v: Vector) -> PlainCt:
        check_period("mul_vector", v, self.slots)
        return PlainCt(_periodic(np.multiply, a.values, _real(v)), spend("mul_vector", a.level))

    def conjugate(self, a: PlainCt) -> PlainCt:
        return PlainCt(np.conj(a.values), a.level)

    def rotate(self, a: PlainCt, k: int) -> PlainCt:
        return PlainCt(np.roll(a.values, -self._step(k)), a.level)

    def rotate_many(self, a: PlainCt, ks: Sequence[int]) -> list[PlainCt]:
        return [self.rotate(a, k) for k in ks]

    def linear(self, xs: Sequence[PlainCt], plan: LinearPlan) -> list[PlainCt]:
        plan.check_inputs(len(xs), self.slots)
        for k in sorted(plan.rotations):
            self._step(k)
        level = spend("linear", min(x.level for x in xs))
        return [PlainCt(values, level) for values in apply_linear([x.values for x in xs], plan)]

    def matmul(self, xs: Operands, weights: Vector, bias: Vector | None = None) -> list[PlainCt]:
        xs = gather(xs, weights, bias)
        level = spend("matmul", min(x.level for x in xs))
        return [PlainCt(v, level) for v in periodic_matmul([x.values for x in xs], weights, bias)]

    def products(
        self,
        left: Sequence[Sequence[PlainCt]],
        right: Sequence[Sequence[PlainCt]],
        onto: PlainProducts | None = None,
    ) -> PlainProducts:
        check_products(left, right, None if onto is None else onto.values.shape[:2])
        level = lowest(left, right, None if onto is None else onto.level)
        values = sum_of_products(
            [[x.values for x in xs] for xs in left], [[y.values for y in ys] for ys in right]
        )
        return PlainProducts(values if onto is None else onto.values + values, level)

    def relinearise(self, products: PlainProducts) -> list[list[PlainCt]]:
        level = spend("relinearise", products.level)
        return [[PlainCt(v, level) for v in row] for row in products.values]

    def poly(self, a: PlainCt, coeffs: Vector) -> PlainCt:
        level = spend("poly", a.level, poly_depth(coeffs))
        return PlainCt(np.polynomial.chebyshev.chebval(a.values, coeffs), level)

    def drop_to(self, a: PlainCt, level: int) -> PlainCt:
        check_drop(a.level, level)
        return PlainCt(a.values, level)

    def bootstrap(self, cts: Sequence[PlainCt], kinds: Sequence[Kind]) -> list[PlainCt]:
        check_kinds(len(cts), kinds)
        return [PlainCt(values, self.max_level) for values in contents([c.values for c in cts], kinds)]

    def bootstrap_through(
        self, cts: Sequence[PlainCt], kinds: Sequence[Kind], harmonics: Vector
    ) -> list[PlainCt]:
        check_kinds(len(cts), kinds)
        level = level_after(harmonics, self.max_level)
        refreshed = zip(contents([c.values for c in cts], kinds), kinds, strict=True)
        return [PlainCt(apply_harmonics(v, kind, harmonics), level) for v, kind in refreshed]

    def coefficient_product(
        self,
        xs: Sequence[PlainCt],
        matrix: CoefficientMatrix,
        harmonics: Vector | None = None,
        level: int | None = None,
    ) -> list[PlainCt]:
        check_product(len(xs), self.slots, matrix)
        spend("coefficient_product", min(x.level for x in xs), INPUT_LEVEL)
        reached = product_level(harmonics, level, self.max_level)
        return [PlainCt(v, reached) for v in matrix.apply([x.values for x in xs], harmonics)]

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        yield

    def _step(self, k: int) -> int:
        step = k % self.slots
        if step and self.rotations is not None and step not in self.rotations:
            raise KeyMissingError(f"rotation by {k} has no key", hint=f"add step {k} to the plan's rotations")
        return step


def check_dot(xs: int, ys: int) -> None:
    """Raises ShapeError unless both lists have one common positive length."""
    if xs != ys or xs == 0:
        raise ShapeError(f"dot: {xs} and {ys} operands", hint="give two lists of one positive length")


def check_kinds(count: int, kinds: Sequence[str]) -> None:
    """Raises ShapeError unless there is one known kind per ciphertext, and pairs come first, two by two."""
    paired = kinds.count("pair")
    known = ["pair"] * paired + [kind for kind in kinds if kind in ("real", "complex")]
    if count != len(kinds) or known != list(kinds) or paired % 2:
        raise ShapeError(
            f"bootstrap: {count} ciphertexts, kinds {list(kinds)}",
            hint='"pair" two by two at first, then one of "real", "complex" each',
        )


MAX_TABLE = 1 << 23  # entries of a dense table of vectors; above it, term by term
TABLES = 16  # that are kept: of two layers of BERT-base, 0.6 GB
BLOCK, COLUMNS = 1 << 19, 64  # bytes of rotated rows and columns of a table that a core's cache holds
MIN_FILLED = 1 / 16  # of a table that is worth multiplying by: masks fill a hundredth


def apply_linear(xs: Sequence[Values], plan: LinearPlan) -> list[Values]:
    """The plan on slot vectors: inner sums of all (output, giant) pairs, then one rotation per pair.

    A vector is here a table (positions of a period, periods of the slots), so that a rotation copies whole
    rows, a vector's entry multiplies a row, and the inner sums are one matrix product for each position.
    """
    sums, babies = _pairs(plan)
    if plan.n_outputs == len(sums) == 1 and plan.period == xs[0].size:
        return [np.roll(sum_of_terms(xs, plan), -plan.post - sums[0][1])]
    if plan.real:
        return apply_linear([*(x.real for x in xs), *(x.imag for x in xs)], _real_part(plan))
    rows = Rows.of([np.ascontiguousarray(x.reshape(-1, plan.period).T) for x in xs], babies)
    shape = (plan.period, rows.values.shape[1])
    outs = [np.zeros(shape, np.result_type(plan.vectors, *xs)) for _ in range(plan.n_outputs)]
    for (j, giant), part in zip(sums, _inner_sums(plan, rows), strict=True):
        for there, here in _turns(shape, giant):
            outs[j][there] += part[here]
    turned = (out.T.reshape(-1) for out in outs)
    return [np.roll(out, -plan.post) if plan.post else out for out in turned]


Block = tuple[slice, slice]  # of a table


def _turns(shape: tuple[int, ...], step: int) -> Iterator[tuple[Block, Block]]:
    """Yields where blocks of a table (positions, periods) go in a rotation, and the blocks."""
    positions, periods = shape
    whole, first = divmod(step, positions)
    for rows, from_rows, turns in (
        (slice(0, positions - first), slice(first, positions), whole % periods),
        (slice(positions - first, positions), slice(0, first), (whole + 1) % periods),
    ):
        if rows.start < rows.stop:
            yield (rows, slice(0, periods - turns)), (from_rows, slice(turns, periods))
            yield (rows, slice(periods - turns, periods)), (from_rows, slice(0, turns))


@cached_weakly(TABLES)
def _real_part(plan: LinearPlan) -> LinearPlan:
    """Returns the real map from the inputs' real parts and behind them their imaginary ones to the outputs'
    real parts."""
    vectors = np.concatenate([plan.vectors.real, -plan.vectors.imag])
    behind = np.array([0, 0, plan.n_inputs, 0, len(plan.vectors)], np.int32)
    terms = np.concatenate([plan.terms, plan.terms + behind])
    filled = np.count_nonzero(vectors, axis=1)[terms[:, 4]] > 0
    return LinearPlan(2 * plan.n_inputs, plan.n_outputs, vectors, terms[filled], post=plan.post)


@cached_weakly(CACHE_SIZE)
def _pairs(plan: LinearPlan) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The (output, giant) and the (input, baby) pairs of the plan."""
    terms = plan.terms.tolist()
    return sorted({(t[0], t[1]) for t in terms}), sorted({(t[2], t[3]) for t in terms})


def _inner_sums(plan: LinearPlan, rows: Rows) -> Iterator[Values]:
    """Yields a table for each pair of the sums. rows: of the tables rotated by the babies."""
    table, (sums, babies) = _table(plan), _pairs(plan)
    values, numbers = rows.values, rows.numbers
    if table is not None:
        # two products of real numbers, unless both are complex
        whole = np.iscomplexobj(values) and not np.iscomplexobj(table)
        parted = np.iscomplexobj(table) and not np.iscomplexobj(values)
        inner = np.empty((plan.period, len(sums), values.shape[1]), np.result_type(table, values))
        step = max(1, BLOCK // (len(babies) * values[0].nbytes))
        for at in range(0, plan.period, step):
            here = slice(at, at + step)
            rotated = np.take(values, numbers[here], axis=0)
            if whole:
                np.matmul(table[here], rotated.view(np.float64), out=inner[here].view(np.float64))
            elif parted:
                inner.real[here] = table.real[here].copy() @ rotated
                inner.imag[here] = table.imag[here].copy() @ rotated
            else:
                np.matmul(table[here], rotated, out=inner[here])
        yield from inner.transpose(1, 0, 2)
        return
    terms, columns = _terms_of(plan), dict(zip(babies, np.ascontiguousarray(numbers.T), strict=True))
    for pair in sums:
        inner = np.zeros((plan.period, values.shape[1]), np.result_type(plan.vectors, values))
        for i, baby, v, where in terms[pair]:
            inner[where] += values[columns[i, baby][where]] * plan.vectors[v, where][:, None]
        yield inner


@cached_weakly(CACHE_SIZE)
def _terms_of(plan: LinearPlan) -> dict[tuple[int, int], list[tuple[int, int, int, Any]]]:
    """Maps (output, giant) to its (input, baby, vector, positions at which the vector is not zero)."""
    where = [_positions(v) for v in plan.vectors]
    terms: dict[tuple[int, int], list[tuple[int, int, int, Any]]] = {}
    for j, giant, i, baby, v in plan.terms.tolist():
        terms.setdefault((j, giant), []).append((i, baby, v, where[v]))
    return terms


def _positions(v: Values) -> Any:
    """Returns an index of the entries that are not zero, as a slice where they lie evenly apart (numpy then
    copies nothing)."""
    positions = np.flatnonzero(v)
    steps = set(np.diff(positions).tolist()) or {1}
    if len(steps) > 1 or not positions.size:
        return positions
    return slice(int(positions[0]), int(positions[-1]) + 1, steps.pop())


@cached_weakly(TABLES)
def _table(plan: LinearPlan) -> Values | None:
    """Returns [period, pairs (output, giant), pairs (input, baby)], or None when that would be too large or
    nearly empty."""
    sums, babies = _pairs(plan)
    entries = plan.period * len(sums) * len(babies)
    filled = np.count_nonzero(plan.vectors, axis=1)[plan.terms[:, 4]].sum()
    if entries > MAX_TABLE or filled < MIN_FILLED * entries:
        return None
    rows, columns = ({pair: n for n, pair in enumerate(pairs)} for pairs in (sums, babies))
    turned = np.zeros((len(sums) * len(babies), plan.period), plan.vectors.dtype)
    for j, giant, i, baby, v in plan.terms.tolist():
        turned[rows[j, giant] * len(babies) + columns[i, baby]] += plan.vectors[v]
    table = np.empty(turned.shape[::-1], turned.dtype)
    for at in range(0, len(turned), COLUMNS):
        table[:, at : at + COLUMNS] = turned[at : at + COLUMNS].T
    return table.reshape(plan.period, len(sums), len(babies))


def _periodic(op: np.ufunc, values: Values, v: Values) -> Values:
    result: Values = op(values.reshape(-1, v.size), v).reshape(-1)
    return result


def _real(v: Values) -> Values:
    """Returns float64 when there is no imaginary part."""
    if np.iscomplexobj(v) and np.any(v.imag):
        return v
    return np.asarray(np.real(v), np.float64)


def _scalar(c: complex) -> complex:
    return c.real if isinstance(c, complex) and c.imag == 0 else c
