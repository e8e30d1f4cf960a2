"""Stages: the unit of placement. A circuit is a list of stages over named live tensors.

A stage is an ordinary function of a backend, so the same list runs on plain (its meaning), on sim (its cost)
and on ckks. Between two stages the placement may lower or bootstrap any live tensor, so every tensor that
crosses a boundary holds values in [-1, 1] (stored = value / bound, with the calibrated bound).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

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
