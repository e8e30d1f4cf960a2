"""`sim`: levels, operation counts and a noise estimate; with values on request. It defines what a circuit
costs.

Counts are kept by (operation, level of its operands, stage); prices are multiplied in by `plans.prices.cost`.
The noise of a handle is an estimated standard deviation per slot; unless values are carried, operands are
taken to have magnitude 1 and linear maps to pass none on, whose vectors are not made then. With `inject=True`
noise of the estimated size (`slots.noise`) is added to the values wherever `ckks` would add it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from tacita.slots.base import Kind, Operands, Vector
from tacita.slots.bootstraps import (
    INPUT_LEVEL,
    OF_Z,
    PHASE,
    CoefficientMatrix,
    check_product,
    level_after,
    product_level,
    refresh_level,
    slope,
)
from tacita.slots.counts import linear_counts, poly_counts, series_depth
from tacita.slots.linear import LinearPlan
from tacita.slots.matrices import check_products, gather, lowest
from tacita.slots.noise import Draws, NoiseModel, combined, row_length, series_slope
from tacita.slots.plain import (
    PlainBackend,
    PlainCt,
    PlainProducts,
    Values,
    check_dot,
    check_drop,
    check_int,
    check_kinds,
    check_period,
    poly_depth,
    spend,
)


@dataclass(eq=False, slots=True, weakref_slot=True)
class SimCt:
    """A ciphertext of `sim`. level; noise: estimated standard deviation per slot; plain: the values, or None
    when only costs are wanted. Nothing changes it, but a frozen one takes three times as long to make."""

    level: int
    noise: float
    plain: PlainCt | None = None


@dataclass(frozen=True, eq=False)
class SimProducts:
    """Accumulators of `products`. power: variance per slot, operands taken to have magnitude 1."""

    rows: int
    columns: int
    level: int
    power: float
    plain: PlainProducts | None = None


class SimBackend:
    """Counts operations, levels and noise, as the module says.

    values: carry slot values. inject: add noise to them (implies values). seed: of the injected noise.
    counts: Counter of (operation, level, stage). rotation_levels: step -> highest level at which it was used.
    """

    def __init__(
        self,
        slots: int,
        max_level: int = 13,
        *,
        values: bool = False,
        inject: bool = False,
        noise: NoiseModel | None = None,
        rotations: frozenset[int] | None = None,
        seed: int = 0,
    ) -> None:
        self.slots, self.max_level = slots, max_level
        self.values, self.inject = values or inject, inject
        self.model = noise or NoiseModel(slots)
        self._product_noise = combined(self.model.rescale, self.model.key_switch * 2.0**-10)
        self.counts: Counter[tuple[str, int, str]] = Counter()
        self.rotation_levels: dict[int, int] = {}
        self.used: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        self._plain = PlainBackend(slots, max_level, rotations)
        self._stage = ""
        self._draws = Draws(self.model, slots, seed) if inject else None

    def input(self, level: int | None = None) -> SimCt:
        """A fresh ciphertext of unknown content (zeros when values are carried)."""
        return self.encrypt(np.zeros(1), level)

    def encrypt(self, values: Values, level: int | None = None) -> SimCt:
        """A fresh ciphertext of periodic values at `level` (default: the top)."""
        plain = self._plain.encrypt(values, level) if self.values else None
        return self._out(self.max_level if level is None else level, 0.0, self.model.fresh, plain)

    def decrypt(self, ct: SimCt) -> Values:
        """Returns all slots. Only with values=True."""
        assert ct.plain is not None, "decrypt needs SimBackend(values=True)"
        return self._plain.decrypt(ct.plain)

    def level(self, ct: SimCt) -> int:
        return ct.level

    def add(self, a: SimCt, b: SimCt) -> SimCt:
        return self._sum("add", a, b)

    def sub(self, a: SimCt, b: SimCt) -> SimCt:
        return self._sum("sub", a, b)

    def neg(self, a: SimCt) -> SimCt:
        return self._map("neg", a)

    def add_const(self, a: SimCt, c: complex) -> SimCt:
        return self._map("add_const", a, c)

    def add_vector(self, a: SimCt, v: Vector) -> SimCt:
        check_period("add_vector", v, self.slots)
        return self._map("add_vector", a, v)

    def mul(self, a: SimCt, b: SimCt) -> SimCt:
        level = spend("mul", min(a.level, b.level))
        self._count("mul", level + 1)
        grown = combined(a.noise * _rms(b), b.noise * _rms(a))
        return self._out(level, grown, self._product_noise, self._run("mul", a, b))

    def square(self, a: SimCt) -> SimCt:
        level = spend("square", a.level)
        self._count("mul", a.level)
        return self._out(level, 2 * a.noise * _rms(a), self._product_noise, self._run("square", a))

    def dot(self, xs: Sequence[SimCt], ys: Sequence[SimCt]) -> SimCt:
        check_dot(len(xs), len(ys))
        level = spend("dot", min(ct.level for ct in (*xs, *ys)))
        self._count("tensor", level + 1, len(xs))
        self._count("relin", level + 1)
        self._count("rescale", level + 1)
        parts = [combined(x.noise * _rms(y), y.noise * _rms(x)) for x, y in zip(xs, ys, strict=True)]
        plain = self._plain.dot(_plains(xs), _plains(ys)) if self.values else None
        return self._out(level, combined(*parts), self._product_noise, plain)

    def mul_const(self, a: SimCt, c: complex) -> SimCt:
        level = spend("mul_const", a.level)
        self._count("mul_scalar", a.level)
        self._count("rescale", a.level)
        return self._out(level, a.noise * abs(c), self.model.rescale, self._run("mul_const", a, c))

    def mul_int(self, a: SimCt, k: int) -> SimCt:
        check_int(k)
        self._count("add", a.level)
        return self._out(a.level, a.noise * abs(k), 0.0, self._run("mul_int", a, k))

    def mul_i(self, a: SimCt) -> SimCt:
        return self._map("mul_i", a)

    def mul_vector(self, a: SimCt, v: Vector) -> SimCt:
        check_period("mul_vector", v, self.slots)
        level = spend("mul_vector", a.level)
        self._count("mul_plain", a.level)
        self._count("rescale", a.level)
        return self._out(level, a.noise * _size(v), self.model.rescale, self._run("mul_vector", a, v))

    def conjugate(self, a: SimCt) -> SimCt:
        self._count("conjugate", a.level)
        return self._out(a.level, a.noise, self.model.key_switch, self._run("conjugate", a))

    def rotate(self, a: SimCt, k: int) -> SimCt:
        if k % self.slots == 0:
            return a
        self._use([k], a.level)
        self._count("rotate", a.level)
        return self._out(a.level, a.noise, self.model.key_switch, self._run("rotate", a, k))

    def rotate_many(self, a: SimCt, ks: Sequence[int]) -> list[SimCt]:
        steps = [k for k in ks if k % self.slots]
        if len(steps) < 2:
            return [self.rotate(a, k) for k in ks]
        self._use(steps, a.level)
        self._count("hoist", a.level)
        self._count("rotate_shared", a.level, len(steps))
        fresh = self.model.key_switch
        turned = (self._out(a.level, a.noise, fresh, self._run("rotate", a, k)) for k in steps)
        return [next(turned) if k % self.slots else a for k in ks]

    def linear(self, xs: Sequence[SimCt], plan: LinearPlan) -> list[SimCt]:
        plan.check_inputs(len(xs), self.slots)
        level = spend("linear", entry := min(x.level for x in xs))
        self._use(sorted(plan.rotations - {plan.post}), entry)
        for op, n in linear_counts(plan, self.slots).items():
            self._count(op, entry, n)
        if plan.post:
            self._use([plan.post], level)
            self._count("rotate", level, plan.n_outputs)
        fresh = combined(self.model.rescale, self.model.key_switch * sqrt(max(1, plan.giant_rotations)))
        plains = self._run_many("linear", plan.n_outputs, xs, plan)
        grown = _linear_noise(xs, plan) if self.values else [0.0] * plan.n_outputs
        pairs = zip(grown, plains, strict=True)
        return [self._out(level, g, fresh, p) for g, p in pairs]

    def matmul(self, xs: Operands, weights: Vector, bias: Vector | None = None) -> list[SimCt]:
        xs = gather(xs, weights, bias)
        entry = min(x.level for x in xs)
        level = spend("matmul", entry)
        self._count("matmul_input", entry, len(xs) * weights.shape[2])
        self._count("matmul", entry, weights.size)
        self._count("rescale", entry, len(weights))
        power = np.mean(np.abs(weights) ** 2, axis=2) @ np.array([x.noise**2 for x in xs])
        plains = self._run_many("matmul", len(weights), xs, weights, bias)
        fresh = self.model.rescale
        return [self._out(level, sqrt(float(g)), fresh, p) for g, p in zip(power, plains, strict=True)]

    def products(
        self,
        left: Sequence[Sequence[SimCt]],
        right: Sequence[Sequence[SimCt]],
        onto: SimProducts | None = None,
    ) -> SimProducts:
        rows, columns = check_products(left, right, None if onto is None else (onto.rows, onto.columns))
        level = lowest(left, right, None if onto is None else onto.level)
        self._count("outer", level, len(left) * rows * columns)
        grown = sum(_mean_noise(cts) for side in (left, right) for cts in side)
        plain = None
        if self.values:
            xs, ys = ([_plains(cts) for cts in side] for side in (left, right))
            plain = self._plain.products(xs, ys, None if onto is None else onto.plain)
        before = 0.0 if onto is None else onto.power
        return SimProducts(rows, columns, level, before + grown, plain)

    def relinearise(self, products: SimProducts) -> list[list[SimCt]]:
        level = spend("relinearise", products.level)
        number = products.rows * products.columns
        self._count("relin", level + 1, number)
        self._count("rescale", level + 1, number)
        grown = sqrt(products.power)
        rows: Sequence[Sequence[PlainCt | None]] = [[None] * products.columns] * products.rows
        if products.plain is not None:
            rows = self._plain.relinearise(products.plain)
        return [[self._out(level, grown, self._product_noise, p) for p in row] for row in rows]

    def poly(self, a: SimCt, coeffs: Vector) -> SimCt:
        level = spend("poly", a.level, poly_depth(coeffs))
        counts = poly_counts(len(coeffs) - 1)
        for (op, below), n in counts.items():
            self._count(op, a.level - below, n)
        self._count("mul_plain", max(level + 1, 1), len(coeffs))
        products = 1 + sum(n for (op, _), n in counts.items() if op == "mul")
        fresh = self._product_noise * (1 + float(np.abs(coeffs).max())) * sqrt(products)
        return self._out(level, a.noise * series_slope(coeffs), fresh, self._run("poly", a, coeffs))

    def drop_to(self, a: SimCt, level: int) -> SimCt:
        check_drop(a.level, level)
        return SimCt(level, a.noise, self._run("drop_to", a, level))

    def bootstrap(self, cts: Sequence[SimCt], kinds: Sequence[Kind]) -> list[SimCt]:
        check_kinds(len(cts), kinds)
        self._count_bootstraps("bootstrap", cts, kinds)
        plains = self._run_many("bootstrap", len(cts), cts, kinds)
        fresh = self.model.bootstrap
        pairs = zip(cts, plains, strict=True)
        return [self._out(self.max_level, ct.noise, fresh, p, refresh=True) for ct, p in pairs]

    def _count_bootstraps(self, op: str, cts: Sequence[SimCt], kinds: Sequence[Kind]) -> None:
        """Counts a pair as one complex bootstrap, and the conjugation by which its parts stay apart."""
        paired = kinds.count("pair")
        self._count("conjugate", self.max_level, paired // 2)
        for i, (ct, kind) in enumerate(zip(cts, kinds, strict=True)):
            if i >= paired or i % 2 == 0:
                self._count(f"{op}_real" if kind == "real" else op, ct.level)

    def bootstrap_through(
        self, cts: Sequence[SimCt], kinds: Sequence[Kind], harmonics: Vector
    ) -> list[SimCt]:
        check_kinds(len(cts), kinds)
        level, grown = level_after(harmonics, self.max_level), slope(harmonics)
        self._count_bootstraps("bootstrap_through", cts, kinds)
        parts = len(kinds) + kinds.count("complex")
        self._count_harmonics(len(harmonics) - 1, parts, self.max_level)
        plains = self._run_many("bootstrap_through", len(cts), cts, kinds, harmonics)
        fresh = combined(grown * OF_Z * self.model.bootstrap, self._product_noise)
        pairs = zip(cts, plains, strict=True)
        return [self._out(level, PHASE * grown * c.noise, fresh, p, refresh=True) for c, p in pairs]

    def coefficient_product(
        self,
        xs: Sequence[SimCt],
        matrix: CoefficientMatrix,
        harmonics: Vector | None = None,
        level: int | None = None,
    ) -> list[SimCt]:
        check_product(len(xs), self.slots, matrix)
        spend("coefficient_product", min(x.level for x in xs), INPUT_LEVEL)
        reached, number = product_level(harmonics, level, self.max_level), matrix.outputs(self.slots).count
        plains = self._run_many("coefficient_product", number, xs, matrix, harmonics, level)
        self._count("to_coefficients", INPUT_LEVEL, len(xs))
        self._count("coefficient_product", INPUT_LEVEL, matrix.products(self.slots))
        before = refresh_level(harmonics, reached)
        self._count("coefficient_refresh", before, number)
        grown = row_length(matrix.weights) * sqrt(_mean_noise(xs))
        fresh = self.model.bootstrap
        if harmonics is not None:
            self._count_harmonics(len(harmonics) - 1, 2 * number, before)
            steep = slope(harmonics)
            grown, fresh = PHASE * steep * grown, combined(steep * OF_Z * fresh, self._product_noise)
        return [self._out(reached, grown, fresh, p, refresh=True) for p in plains]

    def _count_harmonics(self, degree: int, parts: int, top: int) -> None:
        """Counts the operations of a series of the same degree in z. top: one below the level of z."""
        for (op, below), n in poly_counts(degree).items():
            self._count(op, top + 1 - below, n * parts)
        self._count("mul_plain", top + 1 - series_depth(degree), (degree + 1) * parts)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        outer, self._stage = self._stage, name
        try:
            yield
        finally:
            self._stage = outer

    def _count(self, op: str, level: int, n: int = 1) -> None:
        if n:
            self.counts[op, level, self._stage] += n

    def _use(self, steps: Sequence[int], level: int) -> None:
        for k in steps:
            step = self._plain._step(k)
            self.rotation_levels[step] = max(level, self.rotation_levels.get(step, 0))
            self.used[self._stage, level].add(step)

    def _sum(self, op: str, a: SimCt, b: SimCt) -> SimCt:
        level = min(a.level, b.level)
        self._count("add", level)
        return self._out(level, combined(a.noise, b.noise), 0.0, self._run(op, a, b))

    def _map(self, op: str, a: SimCt, *args: Any) -> SimCt:
        return SimCt(a.level, a.noise, self._run(op, a, *args))

    def _run(self, op: str, *args: Any) -> PlainCt | None:
        """The plain operation when values are carried."""
        if not self.values:
            return None
        result: PlainCt = getattr(self._plain, op)(*(a.plain if isinstance(a, SimCt) else a for a in args))
        return result

    def _run_many(self, op: str, count: int, cts: Sequence[SimCt], *args: Any) -> list[PlainCt | None]:
        """The same of an operation on several ciphertexts that gives `count`."""
        return list(getattr(self._plain, op)(_plains(cts), *args)) if self.values else [None] * count

    def _out(
        self, level: int, grown: float, fresh: float, plain: PlainCt | None, *, refresh: bool = False
    ) -> SimCt:
        if plain is not None and self._draws and fresh:
            plain = PlainCt(self._draws.onto(plain.values, fresh, refresh=refresh), level)
        return SimCt(level, combined(grown, fresh), plain)


def _mean_noise(cts: Sequence[SimCt]) -> float:
    return sum(ct.noise**2 for ct in cts) / len(cts)


def _plains(cts: Sequence[SimCt]) -> list[PlainCt]:
    return [ct.plain for ct in cts if ct.plain is not None]


def _size(v: Values) -> float:
    return sqrt(float(np.vdot(v, v).real) / v.size)


def _rms(ct: SimCt) -> float:
    return 1.0 if ct.plain is None else _size(ct.plain.values)


def _linear_noise(xs: Sequence[SimCt], plan: LinearPlan) -> list[float]:
    weights = plan.powers[plan.terms[:, 4]]
    variance = weights * np.array([x.noise**2 for x in xs])[plan.terms[:, 2]]
    totals = np.bincount(plan.terms[:, 0], weights=variance, minlength=plan.n_outputs)
    return [float(np.sqrt(t)) for t in totals]
