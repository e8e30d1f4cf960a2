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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from threading import Lock
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tacita.errors import ShapeError
from tacita.slots.diagonals import ByPlace, Diagonals, Halves, Numbers, codes, first_uses, nonzero

Split: TypeAlias = Literal["auto", "baby", "giant"] | int

BABY_COST = 0.35  # a hoisted rotation, in full rotations
HOIST_COST = 0.65  # the decomposition that an input's babies share
PRODUCT_COST = 0.025  # a product by a plaintext vector, in rotations
CACHE_SIZE = 64  # choices, by their places
KEY_COST = 0.5  # memory and traffic of one more rotation key, in rotations


@dataclass(frozen=True, eq=False)
class Recipe:
    """Vectors that are made when somebody reads them; whoever counts operations reads their shape alone.

    make: gives all vectors, or where it takes numbers of vectors in order (`only`), these. lock: of who makes
    them, so that the threads of a stage make them once; nothing in it is parallel.
    """

    shape: tuple[int, int]
    make: Callable[..., npt.NDArray[Any]]
    lock: Lock = field(default_factory=Lock, repr=False)

    def only(self, numbers: Numbers) -> Recipe:
        """Returns the recipe of some of the vectors."""
        return Recipe((len(numbers), self.shape[1]), partial(self.make, numbers))


@dataclass(frozen=True, eq=False)
class LinearPlan:
    """A slot-linear map, as the module's formula. source: vectors [n_vectors, period], or what makes
    them; terms: int32 [n_terms, 5] = (output, giant, input, baby, vector).

    horner_step: 0, or the positive step of which every giant is a non-negative multiple. post: rotation of
    every output at the end (it makes the giants start at zero). real: nobody asks for the outputs' imaginary
    parts, which an interpreter in the clear need not compute. Uses one level.
    """

    n_inputs: int
    n_outputs: int
    source: npt.NDArray[Any] | Recipe
    terms: npt.NDArray[np.int32]
    horner_step: int = 0
    post: int = 0
    real: bool = False

    @property
    def period(self) -> int:
        """Length of the vectors."""
        return int(self.source.shape[1])

    @property
    def lazy(self) -> bool:
        """Whether there is a recipe in place of vectors."""
        return isinstance(self.source, Recipe)

    @cached_property
    def vectors(self) -> npt.NDArray[Any]:
        """Returns the vectors, [n_vectors, period], which are kept as long as the plan is."""
        if not isinstance(self.source, Recipe):
            return self.source
        with self.source.lock:
            if "vectors" not in vars(self):
                vars(self)["vectors"] = self.source.make()
            vectors: npt.NDArray[Any] = vars(self)["vectors"]
        return vectors

    def make_vectors(self) -> npt.NDArray[Any]:
        """Returns the vectors for who reads them once: those of a recipe are made anew, and not kept."""
        return self.source.make() if isinstance(self.source, Recipe) else self.source

    def only(self, numbers: Numbers) -> Recipe:
        """Returns the recipe of some of the vectors, ascending: a view of those that are there, where they
        follow each other."""
        if isinstance(self.source, Recipe):
            return self.source.only(numbers)
        table, first, last = self.source, int(numbers[0]), int(numbers[-1]) + 1
        rows = slice(first, last) if last - first == len(numbers) else numbers
        return Recipe((len(numbers), self.period), lambda: table[rows])

    @cached_property
    def powers(self) -> npt.NDArray[np.float64]:
        """Mean squared magnitude of each vector, (n_vectors,)."""
        wide = np.ascontiguousarray(self.vectors, np.result_type(self.vectors, np.float64)).view(np.float64)
        return np.asarray(np.einsum("vp,vp->v", wide, wide) / self.period)

    @cached_property
    def babies(self) -> dict[int, tuple[int, ...]]:
        """Maps an input to its non-zero hoisted rotations."""
        pairs = _rows(self.terms[self.terms[:, 3] != 0][:, [2, 3]])
        return _group(pairs)

    @cached_property
    def giants(self) -> dict[int, tuple[int, ...]]:
        """Maps an output to its giants, zero included."""
        grouped = _group(_rows(self.terms[:, [0, 1]]))
        return {j: grouped.get(j, ()) for j in range(self.n_outputs)}

    @cached_property
    def giant_rotations(self) -> int:
        """Counts the full rotations (key switches) for the giants of all outputs, `post` excluded."""
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
        """Returns an estimate in full rotations, keys and plaintext products included."""
        hoisted = sum(len(bs) for bs in self.babies.values())
        whole = self.giant_rotations + (self.n_outputs if self.post else 0)
        shared = HOIST_COST * len(self.babies) + BABY_COST * hoisted
        return whole + shared + KEY_COST * len(self.rotations) + PRODUCT_COST * len(self.terms)

    def check_inputs(self, count: int, slots: int) -> None:
        """Raises ShapeError unless `count` ciphertexts of so many slots are what the plan takes."""
        if count != self.n_inputs or slots % self.period:
            raise ShapeError(
                f"linear: {count} ciphertexts of {slots} slots, for a plan of {self.n_inputs} with vectors "
                f"of {self.period} numbers",
                hint="pass one per input; the length of the vectors must divide the slots",
            )

    def beside(self, count: int) -> LinearPlan:
        """Returns the same map on vectors that have so many slots for each of these."""
        terms = self.terms * np.array([1, count, 1, count, 1], dtype=np.int32)
        vectors = self.vectors if self.period == 1 else np.repeat(self.vectors, count, axis=1)
        steps = self.horner_step * count, self.post * count
        return LinearPlan(self.n_inputs, self.n_outputs, vectors, terms, *steps)

    @staticmethod
    def from_diagonals(
        diagonals: Diagonals | Halves | ByPlace,
        *,
        n_inputs: int | None = None,
        n_outputs: int | None = None,
        split: Split = "auto",
        real: bool = False,
        period: int | None = None,
    ) -> LinearPlan:
        """Builds a plan. diagonals: (output, input, rotation) -> periodic v, meaning out += v *
        rotate(x_input, rotation).

        split: "auto" by cost, "baby", "giant", or the number of babies (a power of two). real: see the class.
        period: of diagonals that are put into a recipe, of which nobody looks for two that are the same; None
        to make the vectors now, each once. Zero diagonals are dropped. Errors: ShapeError for none left or
        unequal periods.
        """
        table = diagonals if isinstance(diagonals, Halves) else Diagonals.of(diagonals)
        filled = nonzero(table)
        outputs, inputs, rotations = filled.places.T
        step = _step(filled.places.tobytes()) if split == "auto" else _fixed_step(rotations, split)
        counts = (
            int(inputs.max()) + 1 if n_inputs is None else n_inputs,
            int(outputs.max()) + 1 if n_outputs is None else n_outputs,
        )
        return replace(_build(filled, step, *counts, period), real=real)

    @staticmethod
    def from_terms(
        terms: Iterable[tuple[int, int, int, int, npt.NDArray[Any]]], *, n_inputs: int, n_outputs: int
    ) -> LinearPlan:
        """Builds a plan. terms: (output, giant, input, baby, vector) as in the module's formula, the split
        chosen by the caller."""
        rows: list[tuple[int, int, int, int, int]] = []
        stored: list[npt.NDArray[Any]] = []
        for output, giant, source, baby, vector in terms:
            if np.any(vector):
                rows.append((output, giant, source, baby, len(stored)))
                stored.append(vector)
        table = np.array(sorted(rows, key=lambda t: (t[0], -t[1], t[2], t[3])), dtype=np.int32)
        return LinearPlan(n_inputs, n_outputs, np.array(stored), table)


def _rows(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The distinct rows of a table of integers, in order."""
    return table[np.unique(codes(table), return_index=True)[1]] if len(table) else table


def _group(pairs: npt.NDArray[Any]) -> dict[int, tuple[int, ...]]:
    """Maps each first number to its second ones, in order."""
    groups: dict[int, list[int]] = {}
    for first, second in pairs.tolist():
        groups.setdefault(first, []).append(second)
    return {first: tuple(seconds) for first, seconds in groups.items()}


def _split(rotations: Numbers, step: int) -> tuple[Numbers, Numbers]:
    """Returns (giants, babies) with rotation = giant + baby, 0 <= baby < step; step 0 means babies only."""
    babies = rotations % step if step else rotations
    return rotations - babies, babies


def _fixed_step(rotations: Numbers, split: Split) -> int:
    if split == "baby":
        return 0
    if split == "giant":
        return _unit(rotations)
    if isinstance(split, str):
        raise ShapeError(f"linear: split {split!r}", hint="auto, baby, giant or a number of babies")
    return int(split)


def _unit(rotations: Numbers) -> int:
    """Returns the greatest common divisor of the rotations: with this step all babies are zero."""
    return int(np.gcd.reduce(rotations)) or 1


@lru_cache(maxsize=CACHE_SIZE)
def _step(places: bytes) -> int:
    """The step of least cost among babies only, and unit * 2^i from giants only upwards. places: as bytes, as
    the layers of a model have the same ones."""
    table = np.frombuffer(places, np.int64).reshape(-1, 3)
    unit, top = _unit(table[:, 2]), int(np.abs(table[:, 2]).max())
    candidates = [0]
    step = unit
    while step <= top + unit:
        candidates.append(step)
        step *= 2
    return min(candidates, key=lambda s: _cost(table, s))


def _cost(places: Numbers, step: int) -> float:
    giants, babies = _split(places[:, 2], step)
    hoisted = _rows(np.stack([places[:, 1], babies], axis=1)[babies != 0])
    rotations, key_count = 0, len(np.unique(hoisted[:, 1]))
    if step:
        turned, low = _rows(np.stack([places[:, 0], giants], axis=1)), int(giants.min())
        tops = turned[np.append(np.diff(turned[:, 0]) != 0, True), 1]  # of each output
        rotations = int(((tops - low) // step).sum()) + (len(tops) if low else 0)
        key_count += 1 + (low != 0)
    shared = HOIST_COST * len(np.unique(hoisted[:, 0])) + BABY_COST * len(hoisted)
    return rotations + shared + KEY_COST * key_count


def _build(
    diagonals: Diagonals | Halves, step: int, n_inputs: int, n_outputs: int, period: int | None
) -> LinearPlan:
    outputs, inputs, rotations = diagonals.places.T
    giants, babies = _split(rotations, step)
    post = int(giants.min())
    source: npt.NDArray[Any] | Recipe
    names: Numbers = np.arange(len(diagonals), dtype=np.int64)
    if period:
        source = Recipe((len(diagonals), period), partial(_turn_rows, diagonals, giants))
    else:
        source, names = _deduplicate(diagonals.turned(giants))
    # Horner runs from the largest giant of an output down to zero; sorted terms let an executor stream
    order = np.lexsort((babies, inputs, -giants, outputs))
    table = np.stack([outputs, giants - post, inputs, babies, names], axis=1)[order].astype(np.int32)
    return LinearPlan(n_inputs, n_outputs, source, table, step if table[:, 1].any() else 0, post)


def _turn_rows(
    diagonals: Diagonals | Halves, giants: Numbers, rows: Numbers | None = None
) -> npt.NDArray[Any]:
    """Returns the vectors, or some of them, each rotated right by its giant."""
    if rows is None:
        return diagonals.turned(giants)
    flags = np.isin(np.arange(len(diagonals)), rows)
    return diagonals.only(flags).turned(giants[flags])


def _deduplicate(rows: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Numbers]:
    """Returns (the distinct rows in order of their first use, for each row which of these it is): masks
    repeat."""
    first, names = first_uses(_marks(rows))
    if len(first) == len(rows):
        return rows, names
    if not np.array_equal(_words(rows), _words(rows[first])[names]):  # two rows of one mark
        numbers: dict[bytes, int] = {}
        names = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], dtype=np.int64)
        first = np.unique(names, return_index=True)[1]
    return rows[first], names


def _marks(rows: npt.NDArray[Any]) -> Numbers:
    """A number for each row, modulo 2^64: rows with different ones differ."""
    words = _words(rows)
    with np.errstate(over="ignore"):
        return np.asarray(words @ (2 * np.arange(words.shape[1]) + 1) ** 3)


def _words(rows: npt.NDArray[Any]) -> Numbers:
    return np.ascontiguousarray(rows).view(np.int64)


def sum_of_terms(xs: Sequence[npt.NDArray[Any]], plan: LinearPlan) -> npt.NDArray[Any]:
    """The one sum of a plan, of slot vectors in the clear, before it is rotated; its real part where nobody
    asks for more. Each vector is read once, where it is."""
    vectors = plan.vectors
    sides: list[tuple[npt.NDArray[Any], Sequence[npt.NDArray[Any]]]] = [(vectors, xs)]
    if plan.real:  # Re(vx) = Re v Re x - Im v Im x
        sides = [(vectors.real, [x.real for x in xs])]
        sides += [(vectors.imag, [-x.imag for x in xs])] if np.iscomplexobj(vectors) else []
    terms = plan.terms[:, 2:].tolist()
    products = (v[n] * (np.roll(own[i], -k) if k else own[i]) for v, own in sides for i, k, n in terms)
    return np.asarray(sum(products))
