"""LinearPlan: a slot-linear map as rotations and products by periodic vectors, shared by all interpreters.

    out_j = rotate( sum over terms (j, G, i, B, v) of rotate(v * rotate(x_i, B), G), post )

Rotations by B ("babies") act on inputs and share one decomposition per input (hoisting); rotations by G
("giants") act on partial sums. `from_diagonals` takes the map as generalised diagonals and chooses the split
by cost; both extremes are included: babies only (few inputs, many outputs) and giants only (many inputs, few
outputs). Giants that are multiples of one step run by Horner's rule, acc = rotate(acc, step) + inner, so that
one key serves all of them. Halevi and Shoup's diagonals with baby-step giant-step; peers.md, sections 6 and
8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tacita.errors import ShapeError

Diagonals: TypeAlias = Mapping[tuple[int, int, int], npt.NDArray[Any]]
Split: TypeAlias = Literal["auto", "baby", "giant"] | int

BABY_COST = 0.35  # a hoisted rotation, in full rotations
HOIST_COST = 0.65  # the decomposition that an input's babies share
PRODUCT_COST = 0.025  # a product by a plaintext vector, in rotations
KEY_COST = 0.25  # memory and traffic of one more rotation key, in rotations


@dataclass(frozen=True, eq=False)
class LinearPlan:
    """See the module. vectors: [n_vectors, period]; terms: int32 [n_terms, 5] = (output, giant, input, baby,
    vector).

    horner_step: 0, or the positive step of which every giant is a non-negative multiple. post: rotation of
    every output at the end (it makes the giants start at zero). Uses one level.
    """

    n_inputs: int
    n_outputs: int
    vectors: npt.NDArray[Any]
    terms: npt.NDArray[np.int32]
    horner_step: int = 0
    post: int = 0

    @property
    def period(self) -> int:
        """Length of the vectors."""
        return int(self.vectors.shape[1])

    @cached_property
    def babies(self) -> dict[int, tuple[int, ...]]:
        """input -> its non-zero hoisted rotations."""
        pairs = {(int(i), int(b)) for _, _, i, b, _ in self.terms if b}
        return {i: tuple(sorted(b for j, b in pairs if j == i)) for i in sorted({i for i, _ in pairs})}

    @cached_property
    def giants(self) -> dict[int, tuple[int, ...]]:
        """output -> its giants, zero included."""
        pairs = {(int(t[0]), int(t[1])) for t in self.terms}
        return {j: tuple(sorted(g for i, g in pairs if i == j)) for j in range(self.n_outputs)}

    @cached_property
    def giant_rotations(self) -> int:
        """Full rotations (key switches) for the giants of all outputs, `post` excluded."""
        if self.horner_step:
            return sum(max(gs, default=0) // self.horner_step for gs in self.giants.values())
        return sum(1 for gs in self.giants.values() for g in gs if g)

    @cached_property
    def rotations(self) -> frozenset[int]:
        """Signed rotation steps for which a key is needed."""
        steps = {b for bs in self.babies.values() for b in bs}
        if self.horner_step:
            steps |= {self.horner_step} if self.giant_rotations else set()
        else:
            steps |= {g for gs in self.giants.values() for g in gs}
        return frozenset(k for k in (*steps, self.post) if k)

    @cached_property
    def cost(self) -> float:
        """Estimate in full rotations, keys and plaintext products included."""
        hoisted = sum(len(bs) for bs in self.babies.values())
        whole = self.giant_rotations + (self.n_outputs if self.post else 0)
        shared = HOIST_COST * len(self.babies) + BABY_COST * hoisted
        return whole + shared + KEY_COST * len(self.rotations) + PRODUCT_COST * len(self.terms)

    def check_inputs(self, count: int) -> None:
        """Raises ShapeError unless `count` ciphertexts are what the plan takes."""
        if count != self.n_inputs:
            raise ShapeError(
                f"linear: plan takes {self.n_inputs} ciphertexts, got {count}", hint="pass one per input"
            )

    @staticmethod
    def from_diagonals(
        diagonals: Diagonals,
        *,
        n_inputs: int | None = None,
        n_outputs: int | None = None,
        split: Split = "auto",
        horner: bool = True,
    ) -> LinearPlan:
        """diagonals: (output, input, rotation) -> periodic v, meaning out += v * rotate(x_input, rotation).

        split: "auto" by cost, "baby", "giant", or the number of babies (a power of two). horner: allow one
        key for all giants. Zero diagonals are dropped. Errors: ShapeError for none left or unequal periods.
        """
        kept = {key: np.asarray(v) for key, v in diagonals.items() if np.any(v)}
        _check(kept)
        steps = sorted(kept)
        step = _choose(steps, horner) if split == "auto" else _fixed(steps, split)
        inputs = n_inputs if n_inputs is not None else 1 + max(i for _, i, _ in steps)
        outputs = n_outputs if n_outputs is not None else 1 + max(j for j, _, _ in steps)
        return _build(kept, step, horner, inputs, outputs)

    @staticmethod
    def from_terms(
        terms: Iterable[tuple[int, int, int, int, npt.NDArray[Any]]], *, n_inputs: int, n_outputs: int
    ) -> LinearPlan:
        """terms: (output, giant, input, baby, vector) as in the module's formula, the split chosen by the
        caller."""
        rows: list[tuple[int, int, int, int, int]] = []
        stored: list[npt.NDArray[Any]] = []
        for output, giant, source, baby, vector in terms:
            if np.any(vector):
                rows.append((output, giant, source, baby, len(stored)))
                stored.append(vector)
        table = np.array(sorted(rows, key=lambda t: (t[0], -t[1], t[2], t[3])), dtype=np.int32)
        return LinearPlan(n_inputs, n_outputs, np.array(stored), table)


def _check(kept: Diagonals) -> None:
    periods = {v.shape for v in kept.values()}
    if len(periods) != 1 or any(len(shape) != 1 for shape in periods):
        raise ShapeError(
            f"linear: diagonals have shapes {sorted(periods)}", hint="give vectors of one common period"
        )


def _split(rotation: int, step: int) -> tuple[int, int]:
    """(giant, baby) with rotation = giant + baby, 0 <= baby < step; step 0 means babies only."""
    return (0, rotation) if step == 0 else (rotation - rotation % step, rotation % step)


def _fixed(keys: Iterable[tuple[int, int, int]], split: Split) -> int:
    if split == "baby":
        return 0
    if split == "giant":
        return _unit(k for _, _, k in keys)
    if isinstance(split, str):
        raise ShapeError(f"linear: split {split!r}", hint="auto, baby, giant or a number of babies")
    return int(split)


def _unit(rotations: Iterable[int]) -> int:
    """Greatest common divisor of the rotations: with this step all babies are zero."""
    return int(np.gcd.reduce([0, *rotations])) or 1


def _choose(keys: list[tuple[int, int, int]], horner: bool) -> int:
    """The step of least cost among babies only, and unit * 2^i from giants only upwards."""
    unit = _unit(k for _, _, k in keys)
    top = max(abs(k) for _, _, k in keys)
    candidates = [0]
    step = unit
    while step <= top + unit:
        candidates.append(step)
        step *= 2
    return min(candidates, key=lambda s: _cost(keys, s, horner))


def _cost(keys: list[tuple[int, int, int]], step: int, horner: bool) -> float:
    pairs = [(j, i, *_split(k, step)) for j, i, k in keys]
    babies = {(i, b) for _, i, _, b in pairs if b}
    giants = {(j, g) for j, _, g, _ in pairs}
    low = min(g for _, g in giants)
    hoists = len({i for i, _ in babies})
    if horner and step:
        runs = {j: max(g for o, g in giants if o == j) - low for j in {j for j, _ in giants}}
        rotations = sum(run // step for run in runs.values()) + (len(runs) if low else 0)
        key_count = len({b for _, b in babies}) + 1 + (low != 0)
    else:
        rotations = sum(1 for _, g in giants if g)
        key_count = len({b for _, b in babies} | {g for _, g in giants if g})
    return rotations + BABY_COST * len(babies) + HOIST_COST * hoists + KEY_COST * key_count


def _build(kept: Diagonals, step: int, horner: bool, n_inputs: int, n_outputs: int) -> LinearPlan:
    split = {key: _split(key[2], step) for key in kept}
    use_horner = horner and step > 0
    post = min(g for g, _ in split.values()) if use_horner else 0
    vectors: dict[bytes, int] = {}
    stored: list[npt.NDArray[Any]] = []
    terms = []
    complex_valued = any(np.iscomplexobj(v) and np.any(np.imag(v)) for v in kept.values())
    for (j, i, _), v in kept.items():
        giant, baby = split[(j, i, _)]
        shifted = np.roll(v if complex_valued else np.real(v), giant)
        name = shifted.tobytes()
        if name not in vectors:
            vectors[name] = len(stored)
            stored.append(shifted)
        terms.append((j, giant - post, i, baby, vectors[name]))
    # Horner runs from the largest giant of an output down to zero; sorted terms let an executor stream
    table = np.array(sorted(terms, key=lambda t: (t[0], -t[1], t[2], t[3])), dtype=np.int32)
    dtype = np.complex128 if complex_valued else np.float64
    step_used = step if use_horner and any(t[1] for t in terms) else 0
    return LinearPlan(n_inputs, n_outputs, np.array(stored, dtype=dtype), table, step_used, post)
