"""Products of one row with keys and values that are kept: right to the residue, for a row's own bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tacita.protocol.party import Party, pair
from tacita.two_party.kept import Growing, KeptProduct, KeptProducts, _packed, _unpacked
from tacita.two_party.residues import Words, reduced

Session = tuple[Party, Party]
RING, SLACK = 40, 1 << 12  # and what the engine allows its ciphertexts to be off by
RNG = np.random.default_rng(11)
KEYS = Growing("n.keys", heads=3, rows=2, inner=8, columns=9, ring=RING, axis=2)
VALUES = Growing("n.values", heads=3, rows=2, inner=9, columns=8, ring=RING, axis=1)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with pair(timeout=20.0) as parties:
        both(parties, lambda party: party.set_up())
        yield parties


def both(parties: Session, work: Callable[[Party], Any]) -> list[Any]:
    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(work, party) for party in parties]]


def shared(x: Words) -> tuple[Words, Words]:
    mask = reduced(RNG.integers(0, 1 << 64, x.shape, np.uint64), RING)
    return reduced(x - mask, RING), mask


def distance(found: list[Words], expected: Words) -> int:
    off = reduced(found[0] + found[1] - expected, RING) << np.uint64(64 - RING)
    return int(np.abs(off.view(np.int64) >> (64 - RING)).max())


@pytest.mark.parametrize(("what", "counts"), [(KEYS, (4, 5, 9)), (VALUES, (4, 5, 9)), (VALUES, (1, 2, 3))])
def test_rows_times_what_grows(session: Session, what: Growing, counts: tuple[int, ...]) -> None:
    """Whole residues, so that nothing but the modulus keeps them apart; a prompt first, then row by row."""
    whole = RNG.integers(0, 1 << RING, (3, what.inner, what.columns), np.uint64)
    whole_shares = shared(whole)
    small = [RNG.integers(0, 1 << 20, (3, 2, what.inner), np.uint64) for _ in counts]
    rows = [shared(x) for x in small]

    def cut(x: Words, y: Words, count: int) -> tuple[Words, Words]:
        return (x, y[..., :count]) if what.axis == 2 else (x[..., :count], y[:, :count])

    def work(party: Party) -> Any:
        at = 0 if party is session[0] else 1
        one = KeptProduct(party.native, what)
        found, sent = [], []
        for i, count in enumerate(counts):
            if i in (0, 2):
                one.prepare(2)
            before = party.native.bytes_sent
            x, y = cut(rows[i][at], whole_shares[at], count)
            found.append(one.product(np.ascontiguousarray(x), np.ascontiguousarray(y), RING))
            sent.append(party.native.bytes_sent - before)
        return found, sent, one.left

    ours, theirs = both(session, work)
    for i, count in enumerate(counts):
        x, y = cut(small[i], whole, count)
        assert distance([ours[0][i], theirs[0][i]], reduced(x @ y, RING)) <= SLACK
    assert ours[2] == theirs[2] == 1
    row = 3 * 2 * what.inner * RING / 8 + 3 * 8 * RING / 8  # opened: a row of x, and one of y
    assert max(ours[1][1], theirs[1][1]) <= row + 64


def test_what_is_not_prepared_is_told_apart(session: Session) -> None:
    def work(party: Party) -> Any:
        kept = KeptProducts(party.native, [KEYS], 9)
        x, y = np.zeros((3, 2, 8), np.uint64), np.zeros((3, 8, 4), np.uint64)
        none = kept.product("n.keys", x, y, RING)
        kept.prepare(3)
        several = np.zeros((3, 4, 8), np.uint64)
        found = [
            kept.product("n.values", x, y, RING),
            kept.product("n.keys", several, y, RING),
            kept.product("n.keys", x, y, RING - 1),
        ]
        assert kept.product("n.keys", x, y, RING) is not None
        return [none, *found, kept.product("n.keys", x, y, RING)]  # the last without a new row

    for found in both(session, work):
        assert found == [None] * 5


@pytest.mark.parametrize("ring", [1, 7, 8, 33, 63, 64])
def test_packing_is_inverted(ring: int) -> None:
    for count in (0, 1, 5, 64):
        values = reduced(RNG.integers(0, 1 << 64, count, np.uint64, endpoint=False), ring)
        packed = _packed(values, ring)
        assert len(packed) == -(-count * ring // 64)
        np.testing.assert_array_equal(_unpacked(packed, ring, count), values)
