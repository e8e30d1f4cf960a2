"""Stages: the unit of placement. A circuit is a list of stages over named live tensors.

A stage is an ordinary function of a backend, so the same list runs on plain (its meaning), on sim (its cost)
and on ckks. Between two stages the placement may lower or bootstrap any live tensor, so every tensor that
crosses a boundary holds values in [-1, 1] (stored = value / bound, with the calibrated bound).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from threading import Lock
from typing import TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from tacita.slots.base import Backend, Ct

Live: TypeAlias = dict[str, tuple[Ct, ...]]


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
                while len(results) >= most:
                    del results[next(iter(results.keys()))]
                results[of] = result
            return result

        return looked_up

    return keeping
