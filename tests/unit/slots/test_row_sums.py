"""Row sums of exponentials where a softmax in rounds divides by small ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacita.approx import inverse
from tacita.approx.poly import constant_spec
from tacita.approx.softmax import Round
from tacita.layouts.multidiagonal import Features
from tacita.layouts.rows import RowsShape
from tacita.layouts.windows import head_windows
from tacita.packings.encoding import Argument
from tacita.packings.multidiagonal.attention import DiagonalSums
from tacita.packings.operations import ENCODED
from tacita.packings.rows.first_token import FirstTokenAttention, in_heads
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


@pytest.mark.parametrize("packing", ["diagonals", "first token"])
def test_sums_whose_factor_is_too_large_to_be_encoded(packing: str) -> None:
    """Scores of keys that no query sees may lie ten nats above all others: of exponentials that small the
    inverse is stored at a scale that no plaintext of the engine holds."""
    spec, be = inverse.fit((5e-6, 6e-5), 1e-3), Encoding(SLOTS)
    form, tokens = Argument.of(spec), np.arange(4)
    exps, mask = 4e-5 * (1.0 + tokens), np.array([0.5, 0.5, 0.0, 0.0])
    if packing == "diagonals":
        sums, width = DiagonalSums(LAYOUT, lambda _, total: total, slice(None)), LAYOUT.shape.batch
        heads = np.arange(width) < LAYOUT.heads
        filled = [be.encrypt(np.resize(np.repeat(each, width), SLOTS)) for each in (exps, mask)]
        (stored,) = sums.stored(be, filled[:1], filled[1:], spec)
        wanted = np.repeat(exps * mask, width)
    else:
        (window,) = head_windows(RowsShape(SLOTS, 4), 2, 4)
        attention: Any = SimpleNamespace(
            windows=(window,), specs=SimpleNamespace(inverse=spec, rounds=()), gathered=None, early=None
        )
        heads = in_heads(window) > 0.0
        filled = [be.encrypt(np.repeat(each, len(heads))) for each in (exps, mask)]
        _, stored = FirstTokenAttention._mix_window(attention, be, 0, filled[0], filled[0], filled[1])
        wanted = np.full(SLOTS, exps @ mask)
    wanted = np.resize(wanted, SLOTS) * form.scale + form.offset
    assert form.scale > 2.0**13.8, "the engine refuses it"
    assert be.decrypt(stored).real == pytest.approx(np.where(np.resize(heads, SLOTS), wanted, 0.0), abs=1e-9)
    assert be.largest <= ENCODED
