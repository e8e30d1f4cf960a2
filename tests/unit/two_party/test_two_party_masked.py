"""Products of shared rows with shared matrices that grow, prepared ahead: against plain arithmetic, at the
edges of rings, and what is sent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tacita.two_party.arithmetic.masked import MaskedProduct
from tacita.two_party.arithmetic.residues import reduced
from tacita.two_party.protocol.party import Party, pair

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
KEY_HEADS, GROUP, SIZE = 2, 3, 5
SLACK = 1 << 16  # what products of shared matrices leave unsure, as the engine says


def both(work: Any, *arguments: np.ndarray) -> list[Any]:
    """What each party returns of work(party, its shares)."""
    rng = np.random.default_rng(8)
    mine = [rng.integers(0, 2**63, x.shape, dtype=np.uint64) * 2 + 1 for x in arguments]

    def side(party: Party, shares: list[np.ndarray]) -> Any:
        party.set_up()
        return work(party, *shares)

    with pair(timeout=180.0) as parties, ThreadPoolExecutor(2) as pool:
        given = (mine, [x - share for x, share in zip(arguments, mine, strict=True)])
        running = [pool.submit(side, *each) for each in zip(parties, given, strict=True)]
        return [future.result() for future in running]


def drawn(*shape: int) -> np.ndarray:
    """Numbers of all 64 bits."""
    return np.random.default_rng(len(shape)).integers(0, 2**63, shape, dtype=np.uint64) * 2 + 1


@pytest.mark.parametrize("ring", [33, 38, 64])
@pytest.mark.parametrize("old", [1, 7])
def test_rows_one_at_a_time_are_the_whole_product(ring: int, old: int) -> None:
    rows = 4
    queries, keys = drawn(KEY_HEADS, GROUP, rows, SIZE), drawn(KEY_HEADS, old + rows, SIZE)
    weights, values = drawn(KEY_HEADS, GROUP, rows, old + rows), drawn(KEY_HEADS, old + rows, SIZE + 1)

    def work(party: Party, q: np.ndarray, k: np.ndarray, p: np.ndarray, v: np.ndarray) -> Any:
        q, k, p, v = (reduced(x, ring) for x in (q, k, p, v))
        sizes = {"group": GROUP, "rows": rows}
        turned = np.swapaxes(k[:, :old], -1, -2)
        first = MaskedProduct.prepare(party.native, turned, ring, **sizes, axis=-1)
        second = MaskedProduct.prepare(party.native, v[:, :old], ring, **sizes, axis=-2)
        before, found = party.native.bytes_sent, []
        for i in range(rows):
            n = old + i + 1
            scores = first.times(q[:, :, i], np.swapaxes(k[:, n - 1 : n], -1, -2))
            found.append((scores, second.times(p[:, :, i, :n], v[:, n - 1 : n])))
        assert first.left == second.left == 0
        return found, party.native.bytes_sent - before

    (client, sent), (server, _) = both(work, queries, keys, weights, values)
    for i, (mine, theirs) in enumerate(zip(client, server, strict=True)):
        n = old + i + 1
        scores = queries[:, :, i] @ np.swapaxes(keys[:, :n], -1, -2)
        mixed = weights[:, :, i, :n] @ values[:, :n]
        for wanted, one, other in zip((scores, mixed), mine, theirs, strict=True):
            off = reduced(one + other - wanted + np.uint64(SLACK), ring)
            assert off.max() <= 2 * SLACK
    numbers = KEY_HEADS * (GROUP * (SIZE + old + (rows + 1) / 2) + 2 * SIZE + 1)
    assert sent <= rows * (numbers * -(-ring // 8) + 2 * 64)  # and two messages' heads


class Watched:
    """A party whose messages are kept."""

    def __init__(self, party: Any) -> None:
        self._party, self.sent = party, list[bytes]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._party, name)

    def send(self, message: bytes) -> None:
        self.sent.append(message)
        self._party.send(message)


@pytest.mark.parametrize("ring", [33, 38, 64])
def test_what_is_opened_is_uniform_and_new_for_each_row(ring: int) -> None:
    """The same row and slice twice: all that the other party sees of them is residues of the ring, each bit
    set half of the time, and the two messages have nothing in common."""
    size, width = 400, -(-ring // 8)

    def work(party: Party, q: np.ndarray, k: np.ndarray) -> list[bytes]:
        watched = Watched(party.native)
        keys = reduced(np.ascontiguousarray(np.swapaxes(k, -1, -2)), ring)
        ahead = MaskedProduct.prepare(watched, keys, ring, group=1, rows=2, axis=-1)
        for _ in range(2):
            ahead.times(reduced(q, ring), keys[..., :1])
        return watched.sent

    zeros = np.zeros((1, 1, size), np.uint64), np.zeros((1, 3, size), np.uint64)
    for messages in both(work, *zeros):
        one, other = (np.frombuffer(each, np.uint8).reshape(2 * size, width) for each in messages)
        for seen in (one, other, one ^ other):
            bits = np.unpackbits(seen, axis=1, bitorder="little")
            assert not bits[:, ring:].any(), "a borrow tells the share from the mask"
            assert (abs(bits[:, :ring].mean(axis=0) - 0.5) < 8 * 0.5 / (2 * size) ** 0.5).all()
