"""The contract between circuits and interpreters: operations on encrypted slot vectors.

A handle (`Ct`) stands for a vector of `slots` complex numbers at a level. **Level = number of rescalings
left**; the interpreter tracks the scale, so circuits never see one. Every operation returns a new handle and
leaves its operands as they are; operands at different levels meet at the lower one. Vectors given in the
clear are periodic: a vector of length p (p divides `slots`) is repeated over all slots; a short period makes
its encoding a sparse polynomial.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy.typing as npt

from tacita.slots.linear import LinearPlan

if TYPE_CHECKING:
    from tacita.slots.bootstraps import CoefficientMatrix

Ct: TypeAlias = Any  # an opaque handle; each backend has its own
Cts: TypeAlias = tuple[Ct, ...]
Products: TypeAlias = Any  # opaque accumulators of degree 2; see `Backend.products`
Vector: TypeAlias = npt.NDArray[Any]  # float64 or complex128, one axis
Kind: TypeAlias = Literal["real", "complex", "pair"]

MAX_PERIOD = 8  # of the weights of `matmul`


@dataclass(frozen=True, eq=False)
class Parts:
    """Operands of `matmul` that come part by part, all of one level. count: how many they are. each: columns
    of the weights and their operands, every column once, in any order; a part may go when the next one is
    asked for."""

    count: int
    each: Iterable[tuple[Sequence[int], Sequence[Ct]]]

    def __len__(self) -> int:
        return self.count


Operands: TypeAlias = Sequence[Ct] | Parts


class Backend(Protocol):
    """Slot-vector operations. Levels used are given per method; a method that runs out raises LevelError."""

    @property
    def slots(self) -> int:
        """The length of every slot vector (a power of two)."""

    @property
    def max_level(self) -> int:
        """The level of a fresh or a bootstrapped ciphertext."""

    def level(self, ct: Ct) -> int:
        """Returns the number of rescalings left."""

    def add(self, a: Ct, b: Ct) -> Ct:
        """Returns a + b at min(level); no level used."""

    def sub(self, a: Ct, b: Ct) -> Ct:
        """Returns a - b at min(level); no level used."""

    def neg(self, a: Ct) -> Ct:
        """Returns -a; no level used."""

    def add_const(self, a: Ct, c: complex) -> Ct:
        """Returns a + c in every slot; no level used."""

    def add_vector(self, a: Ct, v: Vector) -> Ct:
        """Returns a + periodic v; no level used. Errors: ShapeError when the period does not divide
        `slots`."""

    def mul(self, a: Ct, b: Ct) -> Ct:
        """Returns a * b, relinearised and rescaled: min(level) - 1."""

    def square(self, a: Ct) -> Ct:
        """Returns a * a: level - 1."""

    def dot(self, xs: Sequence[Ct], ys: Sequence[Ct]) -> Ct:
        """Returns sum_i xs[i] * ys[i] with one relinearisation and one rescaling: min(level) - 1."""

    def mul_const(self, a: Ct, c: complex) -> Ct:
        """Returns a * c: level - 1."""

    def mul_int(self, a: Ct, k: int) -> Ct:
        """Returns a * k exactly, |k| <= 2^20; no level used, log2|k| bits of headroom, k times the noise."""

    def mul_i(self, a: Ct) -> Ct:
        """Returns a times the imaginary unit; free."""

    def mul_vector(self, a: Ct, v: Vector) -> Ct:
        """Returns a * periodic v: level - 1."""

    def conjugate(self, a: Ct) -> Ct:
        """Returns the complex conjugate of every slot; no level, one key switch."""

    def rotate(self, a: Ct, k: int) -> Ct:
        """Rotates to the left: out[j] = a[j + k mod slots], k of either sign; no level, one key switch (none
        for k = 0)."""

    def rotate_many(self, a: Ct, ks: Sequence[int]) -> list[Ct]:
        """Returns [rotate(a, k) for k in ks], decomposing a once."""

    def linear(self, xs: Sequence[Ct], plan: LinearPlan) -> list[Ct]:
        """Applies the general slot-linear map of the plan: min(level) - 1. Cost: see LinearPlan."""

    def matmul(self, xs: Operands, weights: Vector, bias: Vector | None = None) -> list[Ct]:
        """Computes out[o] = bias[o] + sum_i weights[o, i] * xs[i]: a matrix product over ciphertexts.
        min(level) - 1. Operands in parts give the same bits: what they add up to is rescaled in the end.

        weights: real, (outputs, inputs, period); bias: (outputs, period) or None; the last axis repeats over
        all slots (period 1 means scalars; a power of two up to MAX_PERIOD). Cost: one modular multiply-add
        per residue and weight, one rescaling per output, no key switch. Errors: ShapeError for shapes that do
        not fit together, and parts that are not every operand once.
        """

    def products(
        self, left: Sequence[Sequence[Ct]], right: Sequence[Sequence[Ct]], onto: Products | None = None
    ) -> Products:
        """Computes acc[j][i] (+)= sum_c left[c][j] * right[c][i], of degree 2: neither relinearised nor
        rescaled. No level.

        left: (count, rows), right: (count, columns). onto: accumulators to add to (taken over); all operands
        must be at its level or above. Cost: count * rows * columns tensor products. Errors: ShapeError for
        ragged operands.
        """

    def relinearise(self, products: Products) -> list[list[Ct]]:
        """Returns [rows][columns] ciphertexts, relinearised and rescaled: level - 1. Takes the accumulators
        over."""

    def poly(self, a: Ct, coeffs: Vector) -> Ct:
        """Computes sum_k coeffs[k] T_k(a) for slots in [-1, 1]: ceil(log2(d + 1)) levels for degree d >=
        1."""

    def drop_to(self, a: Ct, level: int) -> Ct:
        """Returns a at a level not above its own; free. Lower levels make every later operation cheaper."""

    def bootstrap(self, cts: Sequence[Ct], kinds: Sequence[Kind]) -> list[Ct]:
        """Returns every ciphertext at max_level; its parts must lie in [-1, 1]. "complex" costs about 1.3
        times "real". "pair": two real ones next to each other, before all others, share the cost of one
        "complex" and a conjugation, each as exact as alone; an imaginary part of the second is taken from the
        first, one of the first is added to the second. Errors: ShapeError for kinds that do not fit."""

    def bootstrap_through(self, cts: Sequence[Ct], kinds: Sequence[Kind], harmonics: Vector) -> list[Ct]:
        """Computes f(w) of every slot w, f(Re w) + i f(Im w) for "complex", where f(w) = Re sum_k
        harmonics[k] exp(i k PHASE w): see `slots.bootstraps`. kinds: as of `bootstrap`.

        The parts of w must lie in [-1, 1]; they may be any of these. Level: max_level + 1 - ceil(log2(n + 1))
        for n harmonics, whatever it was. Cost: a bootstrap, and as many products a part as a series of
        degree n. Errors: ShapeError for coefficients that are not finite or end in zero, LevelError for too
        many.
        """

    def coefficient_product(
        self,
        xs: Sequence[Ct],
        matrix: CoefficientMatrix,
        harmonics: Vector | None = None,
        level: int | None = None,
    ) -> list[Ct]:
        """Computes x W^T + b by coefficients, refreshed, through f of both parts where harmonics are given.

        xs: at level 1 or above, in the layout of `slots.bootstraps`, as are the results. The
        product lies in the middle of a bootstrap, so the rest of one comes with it. Level: max_level; that of
        `bootstrap_through` with a function, or `level`, which may be lower: the lower, the cheaper. Cost:
        `matrix.products` small products, and a bootstrap for each result. Needs keys of its own. Errors:
        ShapeError for another number of ciphertexts, LevelError below level 1, and those of
        `bootstrap_through`.
        """

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Labels everything inside for counts and progress."""
