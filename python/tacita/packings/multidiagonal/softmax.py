"""Row sums of exponentials, and what a softmax in two phases does with those of its first
(`approx.softmax`).

One phase: exponentials times the encrypted mask are summed, and the attention divides by the sums. Two
phases: half the scores' exponentials are summed so, divided and squared; the squares are zero where the mask
is, so they are summed as they are, and the attention goes on with them in place of exponentials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from tacita.approx.spec import Spec
from tacita.layouts.arrays import Array
from tacita.layouts.multidiagonal import Features
from tacita.packings.base import Operation
from tacita.packings.encoding import Argument, apply, output_bound
from tacita.packings.specs import AttentionSpecs
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]
Total = Callable[[Backend, Ct], Ct]  # adds up what lies in the rows of one ciphertext; no level
ENCODED = 2.0**12  # of a plaintext's values at most: at a scale of 2^48 the engine's integers end at 2^13.8


def real_heads(layout: Features, value: float | Array) -> Array:
    """value, or that of each head, at the places of heads, zero at the others; a short period."""
    vector = np.zeros(layout.shape.batch)
    vector[: layout.heads] = value
    return vector


def dots(be: Backend, xs: Sequence[Ct], ys: Sequence[Ct]) -> Ct:
    """Sum of products. One level."""
    return be.dot(xs, ys) if len(xs) > 1 else be.mul(xs[0], ys[0])


def row_sums(specs: AttentionSpecs, layout: Features, total: Total, *, first_phase: bool = False) -> RowSums:
    """The sums that the attention divides by at last, or those of a first phase. total: as of `RowSums`."""
    if not first_phase or (phases := specs.phases) is None:
        return RowSums(layout, specs.inverse, total)
    return RowSums(layout, phases.first, total, phases.steepest, phases.room)


@dataclass(frozen=True, eq=False)
class RowSums:
    """How exponentials are added up over the keys of a row. inverse: of the sums. steepest: what an inverse
    is stored over, None for its largest value on its domain. room: what squares are stored over."""

    layout: Features
    inverse: Spec
    total: Total
    steepest: float | None = None
    room: float = 1.0

    def masked(self, be: Backend, exps: Cts, masks: Sequence[Ct]) -> Ct:
        """Sums of masks times exps, stored for the inverse. One level."""
        scaled = [be.mul_vector(m, self._heads(self._form.scale)) for m in masks]
        return self._centred(be, self.total(be, dots(be, exps, scaled)))

    def plain(self, be: Backend, squares: Cts) -> Ct:
        """Sums stored for the inverse. One level."""
        sums = self.total(be, reduce(be.add, squares))
        return self._centred(be, be.mul_vector(sums, self._heads(self._form.scale)))

    def invert(self, be: Backend, sums: Cts) -> Cts:
        """1 / sums / its largest value. Levels: the inverse's."""
        return (apply(be, sums[0], self.inverse, 1.0 / self._largest),)

    def squares(self, be: Backend, exps: Cts, masks: Sequence[Ct], inverse: Ct) -> Cts:
        """(exp * mask / sum / room)^2, in [0, 1]. 3 levels below exps and masks, 2 below the inverse."""
        scaled = [self._times(be, m, self._largest / self.room) for m in masks]
        weighed = [be.mul(e, m) for e, m in zip(exps, scaled, strict=True)]
        return tuple(be.square(be.mul(k, inverse)) for k in weighed)

    def _times(self, be: Backend, mask: Ct, factor: float) -> Ct:
        """Multiplies a mask by a factor. One level. What of a small sum's inverse is too large to be encoded
        is a power of two, which the ciphertext is multiplied by exactly."""
        doublings = max(0, math.ceil(math.log2(factor / ENCODED)))
        product = be.mul_vector(mask, self._heads(math.ldexp(factor, -doublings)))
        return be.mul_int(product, 1 << doublings) if doublings else product

    @property
    def _largest(self) -> float:
        return output_bound(self.inverse) if self.steepest is None else self.steepest

    @property
    def _form(self) -> Argument:
        return Argument.of(self.inverse)

    def _heads(self, value: float) -> Array:
        return real_heads(self.layout, value)

    def _centred(self, be: Backend, total: Ct) -> Ct:
        return be.add_vector(total, self._heads(self._form.offset))


@dataclass(frozen=True)
class Phase:
    """Operations between exponentials and what is mixed in their place; none, and the exponentials, for one
    phase."""

    operations: Sequence[Operation]
    result: str


def first_phase(
    name: str, specs: AttentionSpecs, sums: Callable[..., RowSums], mask: str, masks: slice
) -> Phase:
    """The first phase of a softmax in two phases. name: of the attention. sums: (first_phase) -> as of
    `row_sums`. mask: the request's tensor, and those of its ciphertexts in the layout of the scores."""
    parts = ("exponentials", "halves", "half_inverse", "squares")
    exps, halves, inverse, squares = (f"{name}.{part}" for part in parts)
    if specs.phases is None:
        return Phase((), exps)
    first = sums(first_phase=True)

    def add_up(be: Backend, exps: Cts, all_masks: Cts) -> Cts:
        return (first.masked(be, exps, all_masks[masks]),)

    def square(be: Backend, exps: Cts, inverse: Cts, all_masks: Cts) -> Cts:
        return first.squares(be, exps, all_masks[masks], inverse[0])

    operations = (
        Operation.of(halves, (exps, mask), halves, add_up),
        Operation.of(inverse, (halves,), inverse, first.invert),
        Operation.of(squares, (exps, inverse, mask), squares, square),
    )
    return Phase(operations, squares)
