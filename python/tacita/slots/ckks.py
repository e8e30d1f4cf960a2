"""`ckks`: the contract on the native engine. A thin adapter; the arithmetic, levels and scales live in Rust.

The evaluator holds parameters and evaluation keys only: there is no way to name a secret key from here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tacita.errors import KeyMissingError, LevelError, ShapeError, TacitaError
from tacita.slots.base import Ct, Kind, Operands, Parts, Products, Vector
from tacita.slots.bootstraps import CoefficientMatrix, check_product, level_after, product_level
from tacita.slots.linear import LinearPlan
from tacita.slots.matrices import check_matmul, check_products
from tacita.slots.plain import check_dot, check_int, check_kinds, check_period, poly_depth

if TYPE_CHECKING:
    from tacita._native import Evaluator


class Translating:
    """Wraps a native object; its methods raise LevelError, KeyMissingError or ShapeError instead of native
    errors."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any) -> Any:
            native = importlib.import_module("tacita._native")
            try:
                return attribute(*args)
            except native.TacitaError as error:
                raise translate(native, error) from error

        return call


def translate(native: Any, error: Exception) -> TacitaError:
    """Returns our error for one of the engine's, message and hint apart."""
    text, _, hint = str(error).partition("; hint: ")
    if isinstance(error, native.LevelError):
        return LevelError(text, hint=hint)
    if isinstance(error, native.KeyMissingError):
        return KeyMissingError(text, hint=hint)
    return ShapeError(text, hint=hint)


def _engine(op: str) -> Callable[..., Ct]:
    """Returns a method that is the engine's own: it checks and converts nothing."""

    def call(self: CkksBackend, *cts: Ct) -> Ct:
        return getattr(self._native, op)(*cts)

    return call


class CkksBackend:
    """Wraps `tacita._native.Evaluator`. on_stage: called with the name of every stage entered (progress).
    at_once: refreshes beside each other after a product of coefficients (0: for half the threads)."""

    def __init__(
        self, evaluator: Evaluator, on_stage: Callable[[str], None] = lambda _: None, at_once: int = 0
    ) -> None:
        self._native, self._evaluator = Translating(evaluator), evaluator
        self._on_stage, self._at_once = on_stage, at_once
        self.slots: int = evaluator.slots
        self.max_level: int = evaluator.max_level

    add, sub, mul = _engine("add"), _engine("sub"), _engine("mul")
    neg, square, mul_i, conjugate = map(_engine, ("neg", "square", "mul_i", "conjugate"))

    def level(self, ct: Ct) -> int:
        return int(ct.level)

    def add_const(self, a: Ct, c: complex) -> Ct:
        return self._native.add_const(a, complex(c))

    def add_vector(self, a: Ct, v: Vector) -> Ct:
        check_period("add_vector", v, self.slots)
        return self._native.add_vector(a, _complex(v))

    def dot(self, xs: Sequence[Ct], ys: Sequence[Ct]) -> Ct:
        check_dot(len(xs), len(ys))
        return self._native.dot(list(xs), list(ys))

    def mul_const(self, a: Ct, c: complex) -> Ct:
        return self._native.mul_const(a, complex(c))

    def mul_int(self, a: Ct, k: int) -> Ct:
        check_int(k)
        return self._native.mul_int(a, int(k))

    def mul_vector(self, a: Ct, v: Vector) -> Ct:
        check_period("mul_vector", v, self.slots)
        return self._native.mul_vector(a, _complex(v))

    def rotate(self, a: Ct, k: int) -> Ct:
        return a if k % self.slots == 0 else self._native.rotate(a, int(k))

    def rotate_many(self, a: Ct, ks: Sequence[int]) -> list[Ct]:
        return list(self._native.rotate_many(a, [int(k) for k in ks]))

    def linear(self, xs: Sequence[Ct], plan: LinearPlan) -> list[Ct]:
        plan.check_inputs(len(xs), self.slots)
        vectors = np.ascontiguousarray(plan.make_vectors(), dtype=np.complex128)
        terms = np.ascontiguousarray(plan.terms, dtype=np.int32)
        outs = self._native.linear(list(xs), vectors, terms, plan.n_outputs, plan.horner_step)
        return [self.rotate(out, plan.post) for out in outs]

    def matmul(self, xs: Operands, weights: Vector, bias: Vector | None = None) -> list[Ct]:
        check_matmul(len(xs), weights, bias)
        matrix = _real(weights), None if bias is None else _real(bias)
        if isinstance(xs, Parts):
            return list(self._native.matmul_parts(xs.each, *matrix))
        return list(self._native.matmul(list(xs), *matrix))

    def products(
        self, left: Sequence[Sequence[Ct]], right: Sequence[Sequence[Ct]], onto: Products | None = None
    ) -> Products:
        check_products(left, right, None if onto is None else (onto.rows, onto.columns))
        return self._native.products([list(xs) for xs in left], [list(ys) for ys in right], onto)

    def relinearise(self, products: Products) -> list[list[Ct]]:
        return [list(row) for row in self._native.relinearise(products)]

    def poly(self, a: Ct, coeffs: Vector) -> Ct:
        poly_depth(coeffs)
        return self._native.poly(a, _complex(coeffs))

    def drop_to(self, a: Ct, level: int) -> Ct:
        return a if int(a.level) == level else self._native.drop_to(a, int(level))

    def bootstrap(self, cts: Sequence[Ct], kinds: Sequence[Kind]) -> list[Ct]:
        check_kinds(len(cts), kinds)
        return list(self._native.bootstrap(list(cts), list(kinds)))

    def bootstrap_through(self, cts: Sequence[Ct], kinds: Sequence[Kind], harmonics: Vector) -> list[Ct]:
        check_kinds(len(cts), kinds)
        level_after(harmonics, self.max_level)
        return list(self._native.bootstrap_through(list(cts), list(kinds), _complex(harmonics)))

    def coefficient_product(
        self,
        xs: Sequence[Ct],
        matrix: CoefficientMatrix,
        harmonics: Vector | None = None,
        level: int | None = None,
    ) -> list[Ct]:
        check_product(len(xs), self.slots, matrix)
        product_level(harmonics, level, self.max_level)
        maps, inputs = self._coefficients(matrix.tokens), matrix.weights.shape[1]
        weights = maps.weights(_real(matrix.weights), _real(matrix.bias))
        blocks = maps.descend(maps.to_coefficients(list(xs)), inputs)
        low = maps.ascend(maps.multiply(blocks, weights))
        through = None if harmonics is None else _complex(harmonics)
        return list(maps.refresh(low, through, level, self._at_once))

    def _coefficients(self, tokens: int) -> Any:
        """Raises KeyMissingError where the plan had no keys for products of so many tokens."""
        keys = self._evaluator.coefficient_keys
        if keys is None or keys.tokens != tokens:
            present = "there are none" if keys is None else f"the keys are for {keys.tokens}"
            raise KeyMissingError(
                f"coefficient_product of {tokens} tokens: {present}", hint="make the keys of the plan"
            )
        native = Translating(importlib.import_module("tacita._native"))
        return Translating(native.Coefficients(self._evaluator, keys))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._on_stage(name)
        yield


def _complex(v: Vector) -> Vector:
    return np.ascontiguousarray(v, dtype=np.complex128)


def _real(v: Vector) -> Vector:
    return np.ascontiguousarray(v, dtype=np.float64)
