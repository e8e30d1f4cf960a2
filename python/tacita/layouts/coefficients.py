"""Moves rows to the slots that products of coefficients take, and back: a transposition of squares.

With m tokens, h = m/2 and a window of W positions, write a token as t = T h + t' and a position as
p = q h + p', with t', p' < h. Rows have the value at slot T s/2 + t' W + q h + p'; a product wants t' in the
lowest place and T as the part. Exchanging t' and p' moves a slot by (t' - p') (W - 1): m - 1 diagonals
whatever W is, one level, and its own inverse. Then the half with T = 1 is put into the imaginary parts.

    feature of position p:  p' (W/h) + q,  below W; ciphertexts have room for 2 W, and the upper half is idle

Only tokens and positions of one value change places: features come out permuted, which is the matrix's
affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacita.layouts.arrays import IntArray, ceil_power, refuse
from tacita.layouts.rotations import doubled_parts
from tacita.layouts.rows import FeatureLayout, RowsShape
from tacita.slots.base import Backend, Cts
from tacita.slots.linear import LinearPlan


@dataclass(frozen=True)
class Transposition:
    """Moves numbers between rows of this shape and coefficients. Errors: ShapeError for windows shorter than
    half of the tokens."""

    shape: RowsShape

    def __post_init__(self) -> None:
        if self.shape.window < self.half or self.shape.tokens < 4:
            what = f"{self.shape.tokens} tokens in {self.shape.slots} slots"
            raise refuse("coefficients", what, "use fewer tokens, or packing rows")

    @property
    def half(self) -> int:
        """h: tokens of a part, and the side of the squares."""
        return self.shape.tokens // 2

    def forward(self, be: Backend, cts: Cts) -> Cts:
        """Real rows -> complex ciphertexts for a product. One level; the upper half is not zero."""
        turned = (be.linear([ct], _transposition(self.shape))[0] for ct in cts)
        return tuple(be.add(ct, be.mul_i(be.rotate(ct, self.shape.slots // 2))) for ct in turned)

    def back(self, be: Backend, cts: Cts) -> Cts:
        """Results of a product whose upper half is zero -> rows, doubled. One level."""
        parts = (doubled_parts(be, ct) for ct in cts)
        rows = (be.add(first, be.rotate(second, self.shape.slots // 2)) for first, second in parts)
        return tuple(be.linear([ct], _transposition(self.shape))[0] for ct in rows)

    def features(self, layout: FeatureLayout) -> tuple[IntArray, IntArray, int]:
        """(features of the layout, features of the product, how many of those there are): which one is
        which."""
        window, half = self.shape.window, self.half
        ct, position = np.nonzero(layout.home >= 0)
        there = 2 * window * ct + position % half * (window // half) + position // half
        return layout.home[ct, position], there, 2 * window * (layout.count - 1) + window


@lru_cache(maxsize=4)
def _transposition(shape: RowsShape) -> LinearPlan:
    """Plans the exchange of t' and p' in baby and giant steps over the distance t' - p' of the diagonals."""
    half, window = shape.tokens // 2, shape.window
    slot = np.arange(shape.slots // 2)
    distance = slot % half - slot // window % half
    babies = ceil_power(int(np.sqrt(2 * half)))
    terms = []
    for d in range(1 - half, half):
        baby = d % babies
        giant = (window - 1) * (d - baby)
        terms.append((0, giant, 0, (window - 1) * baby, np.roll(np.float64(distance == d), giant)))
    return LinearPlan.from_terms(terms, n_inputs=1, n_outputs=1)
