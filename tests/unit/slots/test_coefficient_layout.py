"""Coefficients packing: places, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tacita.errors import ShapeError
from tacita.slots.bootstraps import CoefficientLayout


@pytest.mark.parametrize(("slots", "tokens", "size"), [(32768, 128, 768), (512, 8, 130), (64, 2, 3)])
def test_tensors_come_back_from_their_places(slots: int, tokens: int, size: int) -> None:
    layout = CoefficientLayout(slots, tokens, size)
    tensor = np.arange(1.0, tokens * size + 1).reshape(tokens, size)
    packed = layout.pack(tensor)
    assert len(packed) == layout.count and all(v.shape == (slots,) for v in packed)
    assert np.array_equal(layout.unpack(packed), tensor)
    half = tokens // 2
    for token, feature in [(0, 0), (tokens - 1, size - 1), (half, 1), (half - 1, 2)]:
        slot = packed[feature // layout.features][feature % layout.features * half + token % half]
        assert (slot.imag if token >= half else slot.real) == tensor[token, feature]


def test_base_takes_two_ciphertexts_and_six() -> None:
    counts = [CoefficientLayout(32768, 128, size).count for size in (768, 3072)]
    assert counts == [2, 6]


def test_what_does_not_fit_is_refused() -> None:
    for tokens in (0, 1, 3, 256):
        with pytest.raises(ShapeError, match="does not admit"):
            CoefficientLayout(512, tokens, 8)
    layout = CoefficientLayout(512, 8, 8)
    with pytest.raises(ShapeError, match="pack"):
        layout.pack(np.zeros((8, 9)))
    with pytest.raises(ShapeError, match="unpack"):
        layout.unpack([np.zeros(512)] * 2)
