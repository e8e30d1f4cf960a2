"""The conformance suite of the contract, exported: run every check on every backend.

    for check in CHECKS:
        check(make())

`make` returns a Harness: a backend with a way in and a way out. A backend without values (sim in cost mode)
cannot be checked. `tolerance` is absolute per slot; `ckks` states its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tacita.errors import LevelError, ShapeError, TacitaError
from tacita.slots.base import Backend, Ct, Parts, Vector
from tacita.slots.bootstraps import CoefficientLayout, CoefficientMatrix, evaluate_harmonics
from tacita.slots.linear import LinearPlan

COEFFICIENT_TOKENS = 8  # that a backend with keys must have them for


@dataclass(frozen=True)
class Harness:
    """What a backend's test offers. be: the backend. encrypt(values, level or None), decrypt(ct): ways in and
    out. tolerance: absolute, per slot."""

    be: Backend
    encrypt: Callable[[Vector, int | None], Ct]
    decrypt: Callable[[Ct], Vector]
    tolerance: float = 1e-9

    def values(self, seed: int, *, real: bool = False) -> Vector:
        """Draws slots in the unit square, or in [-1, 1], the same in every run."""
        rng = np.random.default_rng(seed)
        re, im = rng.uniform(-1, 1, (2, self.be.slots))
        slots: Vector = re if real else 0.7 * (re + 1j * im)
        return slots

    def fresh(self, seed: int, level: int | None = None, *, real: bool = False) -> tuple[Ct, Vector]:
        """A ciphertext and its content."""
        v = self.values(seed, real=real)
        return self.encrypt(v, level), v

    def expect(self, ct: Ct, want: Vector, level: int, scale: float = 1.0) -> None:
        """Checks content within tolerance * scale, and the level."""
        got = self.decrypt(ct)
        worst = float(np.max(np.abs(got - want)))
        assert worst <= self.tolerance * scale, f"off by {worst:.3g}, tolerance {self.tolerance * scale:.3g}"
        assert self.be.level(ct) == level, f"level {self.be.level(ct)}, expected {level}"


def check_round_trip(h: Harness) -> None:
    ct, v = h.fresh(1)
    h.expect(ct, v, h.be.max_level)


def check_additions(h: Harness) -> None:
    be, top = h.be, h.be.max_level
    (a, va), (b, vb) = h.fresh(1), h.fresh(2, top - 2)
    period = np.linspace(-1, 1, 8) * (1 + 0.5j)
    h.expect(be.add(a, b), va + vb, top - 2)
    h.expect(be.sub(a, b), va - vb, top - 2)
    h.expect(be.neg(a), -va, top)
    h.expect(be.add_const(a, 0.25 - 0.5j), va + 0.25 - 0.5j, top)
    h.expect(be.add_vector(a, period), va + np.tile(period, be.slots // 8), top)


def check_products(h: Harness) -> None:
    be, top = h.be, h.be.max_level
    (a, va), (b, vb) = h.fresh(1), h.fresh(2, top - 1)
    h.expect(be.mul(a, b), va * vb, top - 2)
    h.expect(be.square(a), va * va, top - 1)
    h.expect(be.dot([a, b, a], [b, b, a]), va * vb + vb * vb + va * va, top - 2, 3)


def check_plain_products(h: Harness) -> None:
    be, top = h.be, h.be.max_level
    a, va = h.fresh(3)
    period = np.linspace(-1, 1, 16) * (1 - 0.25j)
    h.expect(be.mul_const(a, 0.3 + 0.1j), va * (0.3 + 0.1j), top - 1)
    h.expect(be.mul_int(a, -5), va * -5, top, 5)
    h.expect(be.mul_i(a), va * 1j, top)
    h.expect(be.mul_vector(a, period), va * np.tile(period, be.slots // 16), top - 1)


def check_automorphisms(h: Harness) -> None:
    be, top = h.be, h.be.max_level
    a, va = h.fresh(4)
    h.expect(be.conjugate(a), np.conj(va), top)
    for k in (1, -3, be.slots // 2):
        h.expect(be.rotate(a, k), np.roll(va, -k), top)
    for ct, k in zip(be.rotate_many(a, [0, 1, 5]), [0, 1, 5], strict=True):
        h.expect(ct, np.roll(va, -k), top)


def check_linear(h: Harness) -> None:
    """Every split of one map gives the map; Horner's rule, negative giants and several inputs included."""
    be, rng = h.be, np.random.default_rng(5)
    (a, va), (b, vb) = h.fresh(5), h.fresh(6)
    diagonals = {
        (j, i, k): rng.uniform(-1, 1, 16) for j in (0, 1) for i in (0, 1) for k in (-4, -1, 0, 3, 4, 7)
    }
    want = [np.zeros(be.slots, complex) for _ in range(2)]
    for (j, i, k), v in diagonals.items():
        want[j] += np.tile(v, be.slots // 16) * np.roll((va, vb)[i], -k)
    for split in ("auto", "baby", "giant", 4):
        plan = LinearPlan.from_diagonals(diagonals, split=split)
        for ct, w in zip(be.linear([a, b], plan), want, strict=True):
            h.expect(ct, w, be.max_level - 1, 12)


def check_matmul(h: Harness) -> None:
    be, top = h.be, h.be.max_level
    fresh = [h.fresh(seed, top - seed % 2) for seed in range(3)]
    xs, table = [ct for ct, _ in fresh], np.stack([v for _, v in fresh])
    rng = np.random.default_rng(11)
    for period in (1, 2, 4):
        weights, bias = rng.uniform(-1, 1, (5, 3, period)), rng.uniform(-1, 1, (5, period))
        times = be.slots // period
        want = (np.tile(weights, times) * table).sum(axis=1)
        for ct, v, b in zip(be.matmul(xs, weights, bias), want, bias, strict=True):
            h.expect(ct, v + np.tile(b, times), top - 2, 3)
        h.expect(be.matmul(xs, weights)[4], want[4], top - 2, 3)
        low = [be.drop_to(x, top - 1) for x in xs]
        parts = Parts(3, iter([([2, 0], [low[2], low[0]]), ([1], [low[1]])]))
        for ct, v, b in zip(be.matmul(parts, weights, bias), want, bias, strict=True):
            h.expect(ct, v + np.tile(b, times), top - 2, 3)


def check_outer_products(h: Harness) -> None:
    be, top = h.be, h.be.max_level
    (a, va), (b, vb), (c, vc) = h.fresh(4), h.fresh(5, top - 1), h.fresh(6)
    acc = be.products([[a, b]], [[c, a, b]])
    acc = be.products([[b, c], [a, a]], [[a, b, c], [c, c, c]], acc)
    products = be.relinearise(acc)
    left, right = ([va, vb], [vb, vc], [va, va]), ([vc, va, vb], [va, vb, vc], [vc, vc, vc])
    for j, row in enumerate(products):
        for i, ct in enumerate(row):
            want = np.sum([xs[j] * ys[i] for xs, ys in zip(left, right, strict=True)], axis=0)
            h.expect(ct, want, top - 2, 4)


def check_poly(h: Harness) -> None:
    be = h.be
    a, va = h.fresh(7, real=True)
    for degree, depth in ((1, 1), (2, 2), (7, 3), (8, 4), (31, 5)):
        coeffs = np.random.default_rng(degree).normal(size=degree + 1) / (degree + 1)
        h.expect(be.poly(a, coeffs), np.polynomial.chebyshev.chebval(va, coeffs), be.max_level - depth, 8)


def check_levels(h: Harness) -> None:
    be = h.be
    a, va = h.fresh(8)
    h.expect(be.drop_to(a, 1), va, 1)
    bottom = be.drop_to(a, 0)
    _raises(LevelError, lambda: be.mul(bottom, a))
    _raises(LevelError, lambda: be.mul_const(bottom, 0.5))
    _raises(LevelError, lambda: be.matmul([bottom], np.ones((1, 1, 1))))
    _raises(LevelError, lambda: be.relinearise(be.products([[a]], [[bottom]])))
    _raises(LevelError, lambda: be.poly(be.drop_to(a, 2), np.ones(9)))
    _raises(LevelError, lambda: be.drop_to(bottom, 1))


def check_shapes(h: Harness) -> None:
    be = h.be
    a, _ = h.fresh(9)
    _raises(ShapeError, lambda: be.add_vector(a, np.ones(3)))
    _raises(ShapeError, lambda: be.mul_vector(a, np.ones((2, 2))))
    _raises(ShapeError, lambda: be.dot([a], []))
    _raises(ShapeError, lambda: be.mul_int(a, 1 << 21))
    _raises(ShapeError, lambda: be.matmul([a], np.ones((2, 3, 1))))
    _raises(ShapeError, lambda: be.matmul([a], np.full((1, 1, 1), np.nan)))
    for each in ([([0], [a])], [([0, 1], [a, a]), ([1], [a])], [([0, 2], [a, a])]):
        _raises(ShapeError, partial(be.matmul, Parts(2, each), np.ones((1, 2, 1))))
    _raises(ShapeError, lambda: be.matmul(Parts(2, [([0, 1], [a, be.drop_to(a, 1)])]), np.ones((1, 2, 1))))
    _raises(ShapeError, lambda: be.products([[a], [a, a]], [[a], [a]]))


def check_bootstrap(h: Harness) -> None:
    be = h.be
    (a, va), (b, vb) = h.fresh(10, 0, real=True), h.fresh(11, 0)
    vc, vd = 0.7 * h.values(16), 0.7 * h.values(17)
    pair, mixed = [h.encrypt(vc, 0), h.encrypt(vd, 0)], vc + 1j * vd
    fresh = be.bootstrap([*pair, a, b], ["pair", "pair", "real", "complex"])
    # engines refresh to about 2^-20 whatever the tolerance of one operation is
    slack = max(1.0, 2.0**-17 / h.tolerance) if h.tolerance > 1e-8 else 1.0
    for ct, v in zip(fresh, (mixed.real, mixed.imag, va, vb), strict=True):
        h.expect(ct, v, be.max_level, slack)
    _raises(ShapeError, lambda: be.bootstrap([a, *pair], ["real", "pair", "pair"]))
    _raises(ShapeError, lambda: be.bootstrap([pair[0], a, b], ["pair", "real", "real"]))


def check_bootstrap_through(h: Harness) -> None:
    """A function with a corner in its slope, of one part and of two, from the lowest level."""
    be = h.be
    (a, va), (b, vb), (c, vc) = h.fresh(12, 0, real=True), h.fresh(13, 2), h.fresh(18, 0, real=True)
    slack = max(1.0, 2.0**-17 / h.tolerance) if h.tolerance > 1e-8 else 1.0
    for degree in (1, 6, 20):
        orders = np.arange(degree + 1)
        harmonics = np.exp(0.7j * orders) / (1.0 + orders**2)
        real, both = be.bootstrap_through([a, b], ["real", "complex"], harmonics)
        pair = be.bootstrap_through([a, c], ["pair", "pair"], harmonics)
        level = be.max_level + 1 - degree.bit_length()
        for ct, v in zip((real, *pair), (va, va, vc), strict=True):
            h.expect(ct, evaluate_harmonics(harmonics, v.real), level, slack)
        parts = [evaluate_harmonics(harmonics, part) for part in (vb.real, vb.imag)]
        h.expect(both, parts[0] + 1j * parts[1], level, slack)
    _raises(LevelError, lambda: be.bootstrap_through([a], ["real"], np.ones(4 << be.max_level)))
    for bad in (np.ones(1), np.array([1.0, 0.0]), np.array([1.0, np.nan]), np.ones((2, 2))):
        _raises(ShapeError, partial(be.bootstrap_through, [a], ["real"], bad))
    _raises(ShapeError, lambda: be.bootstrap_through([a], [], np.ones(2)))


def check_coefficient_product(h: Harness) -> None:
    """Checks widths that fill no block, one ciphertext and several; plain, and through a function at any
    level."""
    be, rng = h.be, np.random.default_rng(14)
    features = CoefficientLayout(be.slots, COEFFICIENT_TOKENS, 1).features
    slack = max(1.0, 2.0**-16 / h.tolerance) if h.tolerance > 1e-8 else 1.0
    harmonics = np.exp(0.7j * np.arange(7)) / (1.0 + np.arange(7) ** 2)
    for outputs, inputs in ((5, 3), (features + 7, features + 1)):
        weights = rng.uniform(-1.0, 1.0, (outputs, inputs)) / inputs
        matrix = CoefficientMatrix(COEFFICIENT_TOKENS, weights, rng.uniform(-0.1, 0.1, outputs))
        fresh = [h.fresh(20 + i, 1 + i) for i in range(matrix.inputs(be.slots).count)]
        xs, values = [ct for ct, _ in fresh], [v for _, v in fresh]
        for ct, want in zip(be.coefficient_product(xs, matrix), matrix.apply(values, None), strict=True):
            h.expect(ct, want, be.max_level, slack)
        wanted = matrix.apply(values, harmonics)
        for level, reached in ((None, be.max_level - 2), (1, 1)):
            for ct, want in zip(be.coefficient_product(xs, matrix, harmonics, level), wanted, strict=True):
                h.expect(ct, want, reached, slack)


def check_coefficient_refusals(h: Harness) -> None:
    be, (a, _) = h.be, h.fresh(15, 2)
    matrix = CoefficientMatrix(COEFFICIENT_TOKENS, np.full((2, 3), 0.1), np.zeros(2))
    _raises(LevelError, lambda: be.coefficient_product([be.drop_to(a, 0)], matrix))
    _raises(ShapeError, lambda: be.coefficient_product([a, a], matrix))
    _raises(ShapeError, lambda: be.coefficient_product([a], matrix, None, 1))
    _raises(ShapeError, lambda: be.coefficient_product([a], matrix, np.ones(3), be.max_level))
    _raises(ShapeError, lambda: be.coefficient_product([a], matrix, np.array([1.0, np.nan])))
    _raises(ShapeError, lambda: CoefficientMatrix(COEFFICIENT_TOKENS, np.full((2, 3), np.nan), np.zeros(2)))
    _raises(ShapeError, lambda: CoefficientMatrix(COEFFICIENT_TOKENS, np.ones((2, 3)), np.zeros(3)))
    _raises(
        ShapeError, lambda: be.coefficient_product([a], CoefficientMatrix(6, np.ones((2, 3)), np.zeros(2)))
    )


def _raises(kind: type[TacitaError], run: Callable[[], object]) -> None:
    try:
        run()
    except kind:
        return
    raise AssertionError(f"expected {kind.__name__}")


CHECKS: tuple[Callable[[Harness], None], ...] = tuple(
    check for name, check in list(globals().items()) if name.startswith("check_")
)
