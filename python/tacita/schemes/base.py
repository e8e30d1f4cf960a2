"""Stages: the unit of placement. A circuit is a list of stages over named live tensors.

A stage is an ordinary function of a backend, so the same list runs on plain (its meaning), on sim (its cost) and on
ckks. Between two stages the placement may lower or bootstrap any live tensor, so every tensor that crosses a
boundary holds values in [-1, 1] (stored = value / bound, with the calibrated bound).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacita.backends.base import Backend, Ct

Live: TypeAlias = dict[str, tuple[Ct, ...]]


@dataclass(frozen=True)
class Stage:
    """One step of a circuit.

    name: unique in the circuit, "layer0.scores".
    run: (backend, live tensors) -> live tensors afterwards; a tensor that is not returned is dead.
    complex_outputs: tensors returned with independent real and imaginary parts (bootstrapped as such).
    """

    name: str
    run: Callable[[Backend, Live], Live]
    complex_outputs: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Decoded:
    """What the client reads from decrypted slots. answer: (outputs,) logits or pooled vector, unrounded.

    residue: largest magnitude in slots and imaginary parts that the circuit leaves zero, relative to the bound: far
    above the noise it says that an input left its calibrated interval.
    """

    answer: npt.NDArray[np.float64]
    residue: float


@dataclass(frozen=True)
class Circuit:
    """A model laid out on slots, ready for any backend of the right size.

    stages: run in order by the executor. request: tensors the client sends, name -> ciphertexts; `fixed` names those
    that no stage changes (encrypted masks). response: the tensors after the last stage. pack: (hidden states
    (tokens, hidden), mask (tokens,)) -> slot vectors of the request, in [-1, 1]. unpack: slot vectors of the
    response -> Decoded.
    """

    stages: tuple[Stage, ...]
    request: Mapping[str, int]
    fixed: frozenset[str]
    response: Mapping[str, int]
    pack: Callable[[npt.NDArray[np.float64], npt.NDArray[np.float64]], dict[str, list[npt.NDArray[Any]]]]
    unpack: Callable[[Mapping[str, Sequence[npt.NDArray[Any]]]], Decoded]
