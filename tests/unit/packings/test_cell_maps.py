"""Maps into cells whose outputs have no weight at all."""

from __future__ import annotations

import numpy as np
import pytest

from tacita.layouts.columns import BatchShape, Cells
from tacita.packings.columns.cells import CellMap
from tacita.slots.plain import PlainBackend

SHAPE = BatchShape(64, 8)


@pytest.mark.parametrize("inputs", [40, 300])
def test_an_output_without_weights_is_zero_and_is_there(inputs: int) -> None:
    """Sixteen numbers fill two ciphertexts of eight tokens; the seventeenth is alone in a third, and has no
    weights.

    An answer of 384 numbers at 128 tokens is such a case: its two copies fill six ciphertexts and the check
    is alone in the seventh.
    """
    rng, be = np.random.default_rng(inputs), PlainBackend(64, 3)
    matrix = np.concatenate([rng.normal(size=(16, inputs)), np.zeros((1, inputs))])
    bias = np.concatenate([rng.normal(size=16), [0.0]])
    dst, values = Cells(SHAPE, 17), rng.normal(size=inputs)
    found = CellMap.gather(matrix, bias, dst).apply(be, [be.encrypt(np.full(64, v)) for v in values])
    unpacked = dst.unpack([be.decrypt(ct) for ct in found])
    assert len(found) == 3
    np.testing.assert_allclose(unpacked[:, :17], np.tile(matrix @ values + bias, (8, 1)), atol=1e-9)
    src = Cells(SHAPE, inputs)
    between = CellMap.build(matrix, bias, src, dst).apply(be, [be.encrypt(v) for v in src.vectors(values)])
    np.testing.assert_allclose(
        dst.unpack([be.decrypt(ct) for ct in between])[:, :17], unpacked[:, :17], atol=1e-9
    )
