"""Bytes that a feed-forward block on columns takes from disk and writes there within a limit of memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tacita.approx.activations import gelu
from tacita.evaluate.spill import Codec, SpillingBackend, SpillStore
from tacita.evaluate.spill.store import HEADER
from tacita.packings.columns.linear import BatchForward, ColumnMap
from tacita.planning.fitting import Accuracy
from tacita.slots.sim import SimBackend, SimCt

SIZE, INNER, PRODUCTS, BLOCKS = 384, 64, 2, 4  # columns, those of a product, products of a block, blocks
LEVEL, LIMBS, BYTES = 12, 3, 100  # of the input; of a ciphertext at level 0; of a limb


def weight(level: int) -> int:
    return (level + LIMBS) * BYTES


def forward() -> BatchForward:
    """A block whose input is 1.6 times what its limit leaves, as BERT-base's is at 13 GB."""

    def table(outputs: int, inputs: int) -> ColumnMap:
        return ColumnMap(1, np.broadcast_to(1.0, (outputs, inputs, 1)), np.zeros((outputs, 1)))

    expansions = ((table(INNER, SIZE),),) * PRODUCTS
    reads = [PRODUCTS * INNER + SIZE] + (BLOCKS - 1) * [PRODUCTS * INNER]
    blocks = tuple((expansions, table(SIZE, count)) for count in reads)
    return BatchForward(gelu.fit((-8.0, 8.0), Accuracy().activation), None, 1, blocks)


def test_a_feed_forward_reads_its_input_once_a_product(tmp_path: Path) -> None:
    """Every product read 2.2 times what was not in memory, and the sum of all blocks and what a block adds
    to it went to disk and back as a whole."""
    inner, store = SimBackend(64, LEVEL), SpillStore(tmp_path / "spill")

    def load(data: bytes) -> SimCt:
        return inner.input(len(data) // BYTES - LIMBS)

    codec = Codec(lambda ct: weight(ct.level), lambda ct: bytes(weight(ct.level)), load)
    be = SpillingBackend(inner, store, SIZE * weight(LEVEL) * 5 // 8, codec)
    columns = tuple(be.adopt(inner.input(LEVEL)) for _ in range(SIZE))
    total = forward().apply(be, columns, columns)
    low, whole = be.level(total[0]), SIZE * (weight(LEVEL) + HEADER.size)
    sums = SIZE * (weight(low) + HEADER.size)
    active = BLOCKS * PRODUCTS * INNER * (weight(low + 1) + HEADER.size)
    residual = whole + SIZE * (weight(low + 1) + HEADER.size)
    once = BLOCKS * PRODUCTS * whole
    assert 0 < store.bytes_read <= once + residual + (BLOCKS - 1) * sums + active
    assert store.bytes_written <= whole + residual + BLOCKS * sums + 2 * active
    assert be.pool.peak <= be.pool.budget + be.pool.free + weight(LEVEL)
    store.close(keep=False)
