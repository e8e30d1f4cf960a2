"""LayerNorm on interleaved columns: no rotation, one product per column.

The input arrives centred and scaled so that the sum of its squares is the variance in the stored form of
1/sqrt; the result leaves without gamma and beta (see `linear.Meaning`), divided by sqrt(features), which
bounds it. MOAI section 4.3 and ARION section 4.3 spend one level and 2 d plaintext products more on the mean,
gamma and beta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.approx.spec import Spec
from tacita.packings.columns.layout import lane_total
from tacita.packings.columns.linear import Cts
from tacita.packings.stored import Stored, apply
from tacita.packings.vector.norm import exact_bound
from tacita.slots.base import Backend, Ct

AT_ONCE = 16  # columns in one call


@dataclass(frozen=True, eq=False)
class BatchNorm:
    """rsqrt: of variance + epsilon. bound: of |centred input|. size: features. lanes: of the columns."""

    rsqrt: Spec
    epsilon: float
    bound: float
    size: int
    lanes: int

    @property
    def entry(self) -> float:
        """The input is stored as value / entry."""
        return exact_bound(self.bound, self.rsqrt, self.size)

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt. One level, two with lanes; one
        relinearisation."""
        form = Stored.input_of(self.rsqrt)
        total = lane_total(be, dot(be, x, x), self.lanes)
        times = round(self.entry**2 * form.scale / self.size)
        scaled = total if times == 1 else be.mul_int(total, times)
        return be.add_const(scaled, (self.epsilon - form.centre) * form.scale)

    def root(self, be: Backend, variance: Ct) -> Ct:
        """Stored variance -> the factor that takes x / entry to its normalised form. Levels: rsqrt's."""
        return apply(be, variance, self.rsqrt, self.entry / float(np.sqrt(self.size)))

    def normalise(self, be: Backend, x: Cts, root: Ct) -> Cts:
        """LayerNorm without gamma and beta, / sqrt(size). One level below x and root; one product a
        column."""
        return tuple(be.mul(ct, root) for ct in x)


def dot(be: Backend, xs: Sequence[Ct], ys: Sequence[Ct]) -> Ct:
    """sum_i x_i y_i, a few operands at a time; one relinearisation, one level."""
    acc = None
    for i in range(0, len(xs), AT_ONCE):
        left, right = ([[ct] for ct in side[i : i + AT_ONCE]] for side in (xs, ys))
        acc = be.products(left, right, acc)
    found: Ct = be.relinearise(acc)[0][0]
    return found
