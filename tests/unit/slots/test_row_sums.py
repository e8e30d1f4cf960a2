"""Row sums of exponentials where a softmax in rounds divides by small ones."""

from __future__ import annotations

import numpy as np
import pytest

from tacita.approx.poly import constant_spec
from tacita.approx.softmax import Round
from tacita.layouts.multidiagonal import Features
from tacita.packings.multidiagonal.attention import DiagonalSums
from tacita.packings.operations import ENCODED
from tacita.slots.plain import PlainBackend, PlainCt, Values

SLOTS = 64
ROOM = 1.3
LAYOUT = Features.hidden(SLOTS, tokens=4, heads=2, head_size=4)


class Encoding(PlainBackend):
    """Remembers the largest value that it was given to encode."""

    largest = 0.0

    def mul_vector(self, a: PlainCt, v: Values) -> PlainCt:
        self.largest = max(self.largest, float(np.abs(v).max()))
        return super().mul_vector(a, v)


@pytest.mark.parametrize("inverse", [0.5, 1.9 * ENCODED, 7.5 * ENCODED], ids=["small", "twice", "large"])
def test_what_is_encoded_fits_the_engine_however_small_a_sum_is(inverse: float) -> None:
    sums, one = (
        DiagonalSums(LAYOUT, lambda _, total: total, slice(None)),
        constant_spec("inverse", (0.0, 1.0), inverse),
    )
    be, mask = Encoding(SLOTS), np.ones(SLOTS)
    exps, inverted = np.linspace(0.0, ROOM / inverse, SLOTS), np.full(SLOTS, 0.5)
    (found,) = sums.squares(
        be, (be.encrypt(exps),), (be.encrypt(inverted),), (be.encrypt(mask),), Round(one, ROOM, inverse)
    )
    heads = np.resize(np.arange(LAYOUT.shape.batch) < LAYOUT.heads, SLOTS)
    assert be.decrypt(found).real == pytest.approx((heads * exps * inverse / ROOM / 2) ** 2, abs=1e-12)
    assert be.largest <= ENCODED
