"""Stages: the unit of placement. A circuit is a list of stages over named live tensors.

A stage is an ordinary function of a backend, so the same list runs on plain (its meaning), on sim (its cost)
and on ckks. Between two stages the placement may lower or bootstrap any live tensor, so every tensor that
crosses a boundary holds values in [-1, 1] (stored = value / bound, with the calibrated bound).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from threading import Lock
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from tacita.errors import ShapeError
from tacita.slots.base import Backend, Ct, Cts, Operands, Vector
from tacita.slots.linear import LinearPlan

Live: TypeAlias = dict[str, Cts]


@dataclass(frozen=True)
class Stage:
    """One step of a circuit.

    name: unique in the circuit, "layer0.scores".
    run: (backend, live tensors) -> live tensors afterwards; a tensor that is not returned is dead.
    complex_outputs: tensors returned with independent real and imaginary parts (bootstrapped as such).
    refreshes: whether it bootstraps by itself, so that its results are at levels that its operands do not
    decide.
    variants: other ways to run it, of which the placement takes the cheapest; they read and return the same
    tensors, under the same names.
    """

    name: str
    run: Callable[[Backend, Live], Live]
    complex_outputs: frozenset[str] = field(default_factory=frozenset)
    refreshes: bool = False
    variants: tuple[Stage, ...] = ()


# What was computed from an object, kept while that object is there.
#
# `functools.lru_cache` keeps its arguments: tables of linear maps kept the maps themselves, and so the
# circuits that planning had tried, 2 GB of them for BERT-base.

Of = TypeVar("Of")
Result = TypeVar("Result")


def cached_weakly(most: int) -> Callable[[Callable[[Of], Result]], Callable[[Of], Result]]:
    """A function of one object, computed once for each of the last `most` objects that are there.

    >>> class Map:
    ...     size = 3
    >>> squared = cached_weakly(2)(lambda of: of.size**2)
    >>> squared(Map())
    9
    """

    def keeping(compute: Callable[[Of], Result]) -> Callable[[Of], Result]:
        results: WeakKeyDictionary[Of, Result] = WeakKeyDictionary()
        lock = Lock()

        @wraps(compute)
        def looked_up(of: Of) -> Result:
            with lock:
                if of in results:
                    return results[of]
            result = compute(of)
            with lock:
                if of not in results:  # nor has another thread computed it
                    while len(results) >= most:
                        del results[next(iter(results.keys()))]
                    results[of] = result
                return results[of]

        return looked_up

    return keeping


# Several texts side by side: slot s of text n is slot s * count + n. Products and sums are those of each
# text, rotations are count times as long, and vectors in the clear have every number count times.

MOST_PLANS = 16  # linear maps that are kept in this form, of up to 100 MB each


class Interleaved:
    """A backend for one text, on a backend whose vectors hold so many texts. What is not here is the same for
    all slots; a product of coefficients is not, and `matmul` with a period of its own."""

    def __init__(self, be: Backend, count: int) -> None:
        self._be, self._count, self.slots = be, count, be.slots // count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._be, name)

    def add_vector(self, a: Ct, v: Vector) -> Ct:
        return self._be.add_vector(a, self._spread(v))

    def mul_vector(self, a: Ct, v: Vector) -> Ct:
        return self._be.mul_vector(a, self._spread(v))

    def rotate(self, a: Ct, k: int) -> Ct:
        return self._be.rotate(a, k * self._count)

    def rotate_many(self, a: Ct, ks: Sequence[int]) -> list[Ct]:
        return self._be.rotate_many(a, [k * self._count for k in ks])

    def linear(self, xs: Sequence[Ct], plan: LinearPlan) -> list[Ct]:
        return self._be.linear(xs, spread(plan, self._count))

    def matmul(self, xs: Operands, weights: Vector, bias: Vector | None = None) -> list[Ct]:
        if weights.shape[2] != 1:
            raise ShapeError(f"matmul: period {weights.shape[2]} of texts side by side", hint="use one lane")
        return self._be.matmul(xs, weights, bias)

    def coefficient_product(self, *_: Any) -> list[Ct]:
        raise ShapeError("a product of coefficients of texts side by side", hint="use another packing")

    def _spread(self, v: Vector) -> Vector:
        return v if len(v) == 1 else np.repeat(v, self._count)


@cached_weakly(MOST_PLANS)
def _by_count(_: LinearPlan) -> dict[int, LinearPlan]:
    """Returns a plan's forms on several texts, by their count, of which `spread` makes each."""
    return {}


def spread(plan: LinearPlan, count: int) -> LinearPlan:
    """Returns `LinearPlan.beside`, which is kept as long as the plan is."""
    plans = _by_count(plan)
    if count not in plans:
        plans[count] = plan.beside(count)
    return plans[count]


def interleaved(stage: Stage, count: int) -> Stage:
    """Returns the stage of so many texts side by side."""
    variants = tuple(interleaved(variant, count) for variant in stage.variants)
    return replace(stage, run=on_texts(stage.run, count), variants=variants)


def on_texts(run: Callable[..., Result], count: int) -> Callable[..., Result]:
    """Returns a function of a backend and ciphertexts on those of so many texts."""

    def on_all(be: Backend, *operands: Any) -> Result:
        one: Any = Interleaved(be, count)
        return run(one, *operands)

    return run if count == 1 else on_all
