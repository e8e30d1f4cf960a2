"""Transfers are made in batches, and a batch may begin in the middle of any operation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tacita.two_party.protocol.party import Party, pair

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
COUNT, CALLS = 1537, 40


def test_batches_that_begin_between_the_terms_of_a_product() -> None:
    """An answer was read where the batch for a later term came first."""
    x = np.random.default_rng(4).integers(-(2**20), 2**20, COUNT).astype(np.int64)
    mine = np.random.default_rng(5).integers(0, 2**46, COUNT, dtype=np.uint64)

    def side(party: Party, share: np.ndarray) -> Any:
        party.set_up()
        found = [party.native.silu(share, 46, 18, 46, form="abs8", range=4) for _ in range(CALLS)]
        cots = party.native.cots()
        return found, cots["made_as_sender"] + cots["made_as_receiver"]

    other = (x.view(np.uint64) - mine) & np.uint64(2**46 - 1)
    with pair(timeout=180.0) as parties, ThreadPoolExecutor(2) as pool:
        running = [pool.submit(side, *each) for each in zip(parties, (mine, other), strict=True)]
        (client, made), (server, _) = (future.result() for future in running)
    assert made > 5_000_000  # batches began in many places
    for one, two in zip(client, server, strict=True):
        total = ((one + two) & np.uint64(2**46 - 1)) << np.uint64(18)
        floats = (total.view(np.int64) >> 18) / 2.0**18
        values = x / 2.0**18
        assert np.abs(floats - values / (1 + np.exp(-values))).max() < 0.02
