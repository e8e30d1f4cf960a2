"""Handles within a budget: the least recently used go to disk, everything comes back, nothing else
changes."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spilling
from spilling import WEIGHT, decrypt, encrypt

from tacita.errors import FileError, ResourceError, ShapeError
from tacita.evaluate.spill import Codec, Handle, SpillingBackend, SpillStore
from tacita.slots.conformance import CHECKS, Harness
from tacita.slots.plain import PlainBackend, PlainCt
from tacita.slots.sim import SimBackend


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SpillStore]:
    made = SpillStore(tmp_path / "spill")
    yield made
    made.close(keep=False)


def in_memory(*handles: Handle) -> list[bool]:
    return [handle.entry.value is not None for handle in handles]


@pytest.mark.parametrize("room", [0, 1, 1000])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[Harness], None], room: int, store: SpillStore) -> None:
    be = spilling.spilling(store, room)
    check(Harness(be, lambda v, level: encrypt(be, v, level), lambda ct: decrypt(be, ct)))
    gc.collect()
    assert be.pool.resident == store.on_disk == 0
    assert not store.bytes_written or room < 1000


def test_the_least_recently_used_is_spilled_first(store: SpillStore) -> None:
    be = spilling.spilling(store, 3)
    a, b, c = (encrypt(be, np.full(4, v)) for v in (1.0, 2.0, 3.0))
    be.neg(a)  # a is fresh again; its result dies at once
    d = encrypt(be, np.ones(4))
    assert in_memory(a, b, c, d) == [True, False, True, True]
    assert be.pool.resident == 3 * WEIGHT


def test_operands_of_one_operation_are_there_together(store: SpillStore) -> None:
    be = spilling.spilling(store, 2)
    cts = [encrypt(be, np.full(4, float(v))) for v in range(5)]
    total = be.dot(cts, cts)
    assert np.allclose(decrypt(be, total), 30.0)
    assert be.pool.resident <= 2 * WEIGHT
    assert be.pool.peak == 6 * WEIGHT  # five operands and their result


def test_a_ciphertext_is_written_once(store: SpillStore) -> None:
    be = spilling.spilling(store, 1)
    a, b = encrypt(be, np.ones(4)), encrypt(be, np.zeros(4))
    for ct in (a, b, a, b, a):
        decrypt(be, ct)
    assert store.bytes_written == store.on_disk
    assert len(list(store.folder.glob("*.spill"))) == 2


def test_memory_and_disk_are_free_when_a_handle_dies(store: SpillStore) -> None:
    be = spilling.spilling(store, 1)
    a, b = encrypt(be, np.ones(4)), encrypt(be, np.zeros(4))
    assert in_memory(a, b) == [False, True]
    del a, b
    assert be.pool.resident == 0
    assert list(store.folder.glob("*.spill")) == []


def test_levels_are_known_and_nothing_is_loaded_where_nothing_is_done(store: SpillStore) -> None:
    be = spilling.spilling(store, 0)
    a = encrypt(be, np.ones(4), 5)
    assert be.drop_to(a, be.level(a)) is a
    assert store.bytes_read == 0
    assert be.level(be.drop_to(a, 3)) == 3


def test_accumulators_stay_in_memory_and_are_counted_once(store: SpillStore) -> None:
    be = spilling.spilling(store, 4)
    a, b = encrypt(be, np.full(4, 2.0)), encrypt(be, np.full(4, 3.0))
    first = be.products([[a, b]], [[a, b]])
    second = be.products([[a, b]], [[a, b]], first)
    assert in_memory(a, b, second) == [False, False, True]
    assert be.pool.resident == 4 * WEIGHT
    with pytest.raises(ShapeError, match="took over"):
        be.relinearise(first)
    found = be.relinearise(second)
    assert [[decrypt(be, ct)[0].real for ct in row] for row in found] == [[8.0, 12.0], [12.0, 18.0]]


def test_others_make_room_before_an_operation_makes_many(
    store: SpillStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were sent to disk once the results were there: accumulators of a whole attention, 2 GB, came on
    top of the limit."""
    be = spilling.spilling(store, 12)
    seen: list[int] = []
    for name in ("products", "rotate_many"):
        inner = getattr(PlainBackend, name)
        monkeypatch.setattr(
            PlainBackend, name, lambda *a, inner=inner: (seen.append(be.pool.resident), inner(*a))[1]
        )
    others = [encrypt(be, np.ones(4)) for _ in range(8)]
    a, b, c, d = (encrypt(be, np.full(4, v)) for v in (1.0, 2.0, 3.0, 4.0))
    held = be.products([[a, b]], [[c, d]])
    be.products([[a, b]], [[c, d]], held)
    del held
    be.rotate_many(a, range(8))
    assert be.pool.peak <= 13 * WEIGHT  # the budget, and a result on its way in
    assert seen == [7 * WEIGHT, 11 * WEIGHT, 5 * WEIGHT]
    assert sum(in_memory(*others)) < 8


def test_large_products_are_made_in_parts_that_fit(store: SpillStore) -> None:
    be, plain = spilling.spilling(store, 8), PlainBackend(64)
    weights = np.random.default_rng(3).normal(size=(70, 2, 2))
    bias = weights[:, 0] + 1
    values = [np.linspace(-1, 1, 64), np.linspace(0, 1, 64)]
    found = be.matmul([encrypt(be, v) for v in values], weights, bias)
    want = plain.matmul([plain.encrypt(v) for v in values], weights, bias)
    assert be.pool.peak <= (8 + 2 + 32) * WEIGHT
    assert all(np.array_equal(decrypt(be, ct), plain.decrypt(w)) for ct, w in zip(found, want, strict=True))
    fresh = be.bootstrap(found, ["real"] * 70)
    assert {be.level(ct) for ct in fresh} == {be.max_level}
    assert all(np.array_equal(decrypt(be, ct), plain.decrypt(w)) for ct, w in zip(fresh, want, strict=True))


@pytest.mark.parametrize(
    ("group", "calls"), [(1, [2, 2, 1, 1, 1]), (2, [2, 2, 2, 1]), (3, [4, 3]), (16, [7])]
)
def test_both_of_a_pair_are_refreshed_by_one_call(group: int, calls: list[int], store: SpillStore) -> None:
    """Where memory has room for one bootstrap at a time, a pair is one."""
    sizes = list[int]()

    class Counted(PlainBackend):
        def bootstrap(self, cts: Any, kinds: Any) -> Any:
            sizes.append(len(cts))
            return super().bootstrap(cts, kinds)

    be = SpillingBackend(Counted(64), store, 2 * WEIGHT, spilling.CODEC, group)
    values = [np.full(64, number / 8.0) for number in range(7)]
    kinds: list[Any] = [*["pair"] * 4, "real", "real", "complex"]
    fresh = be.bootstrap([encrypt(be, v, 1) for v in values], kinds)
    assert sizes == calls and {be.level(ct) for ct in fresh} == {be.max_level}
    assert all(np.array_equal(decrypt(be, ct), v) for ct, v in zip(fresh, values, strict=True))


def test_operands_that_do_not_fit_come_in_turn(store: SpillStore) -> None:
    """All operands of a product were in memory at once: 12 GB in BERT-base's feed-forward, within a limit
    that left 7.7, and every group of outputs read again what was too much."""
    be, plain = spilling.spilling(store, 256), PlainBackend(64)
    rng = np.random.default_rng(5)
    weights, values = rng.normal(size=(64, 400, 1)) / 400, rng.uniform(-1, 1, size=(400, 64))
    xs = [encrypt(be, v) for v in values]
    want = plain.matmul([plain.encrypt(v) for v in values], weights, weights[:, 0])
    for most in (400, 400 - 134):  # a second product begins with those in memory
        before = store.bytes_read
        found = be.matmul(xs, weights, weights[:, 0])
        assert 0 < store.bytes_read - before <= most * max(x.entry.file.size for x in xs if x.entry.file)
        assert be.pool.peak <= (256 + 32 + 1) * WEIGHT  # with what is kept free for results
        for ct, w in zip(found, want, strict=True):
            assert np.array_equal(decrypt(be, ct), plain.decrypt(w))
        assert {be.level(ct) for ct in found} == {be.max_level - 1}
        del found
    assert be.pool.budget == 256 * WEIGHT


def test_a_product_in_parts_rescales_every_output_once(store: SpillStore) -> None:
    sim = SimBackend(64)
    codec = Codec(lambda ct: WEIGHT, pickle.dumps, pickle.loads)
    be = spilling.SpillingBackend(sim, store, 256 * WEIGHT, codec)
    be.matmul([be.adopt(sim.input()) for _ in range(400)], np.ones((64, 400, 2)))
    assert store.bytes_read > 0
    assert {op: n for (op, _, _), n in sim.counts.items()} == {
        "matmul_input": 400 * 2,
        "matmul": 64 * 400 * 2,
        "rescale": 64,
    }


def test_a_part_that_cannot_be_read_ends_the_product(store: SpillStore) -> None:
    be = spilling.spilling(store, 64)
    xs = [encrypt(be, np.full(4, float(i))) for i in range(100)]
    path = next(store.folder.glob("*.spill"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(FileError, match="damaged"):
        be.matmul(xs, np.ones((40, 100, 1)))
    assert be.pool.budget == 64 * WEIGHT
    assert all(x.entry.pins == 0 for x in xs)


def test_a_product_has_all_its_operands_at_the_lowest_level(
    store: SpillStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A feed-forward block reads its input, 14 limbs, beside 256 columns of 8: 4 GB were in memory at once,
    and another one of copies, within a limit that left 2.4."""
    seen: list[list[int]] = []
    matmul = PlainBackend.matmul

    def watched(be: PlainBackend, xs: list[PlainCt], *rest: np.ndarray | None) -> list[PlainCt]:
        seen.append([x.level for x in xs])
        return matmul(be, xs, *rest)

    monkeypatch.setattr(PlainBackend, "matmul", watched)
    be = spilling.spilling(store, 3)
    high, low = encrypt(be, np.full(4, 2.0), 9), encrypt(be, np.full(4, 3.0), 5)
    (found,) = be.matmul([high, low], np.full((1, 2, 1), 0.5))
    assert seen == [[5, 5]]
    assert (be.level(found), be.level(high)) == (4, 9)
    assert np.allclose(decrypt(be, found), 2.5)


@pytest.mark.parametrize("seed", range(4))
def test_a_random_circuit_gives_the_same_with_and_without_spilling(seed: int, store: SpillStore) -> None:
    tight, wide = (random_circuit(spilling.spilling(store, room), seed) for room in (3, 10**6))
    assert np.array_equal(tight, wide)
    assert store.bytes_read > 0


def random_circuit(be: spilling.SpillingBackend, seed: int) -> np.ndarray:
    """Thirty operations on a heap of twelve; every value stays in [-1, 1]."""
    rng = np.random.default_rng(seed)
    heap = [encrypt(be, rng.uniform(-1, 1, 64)) for _ in range(12)]
    for _ in range(30):
        i, j, k = (int(n) for n in rng.integers(0, 12, 3))
        operation = int(rng.integers(0, 5))
        if operation == 0 and min(be.level(heap[i]), be.level(heap[j])) > 0:
            heap[k] = be.mul(heap[i], heap[j])
        elif operation == 1:
            heap[k] = be.rotate(heap[i], j)
        elif operation == 2:
            heap[k] = be.conjugate(be.neg(heap[j]))
        elif operation == 3 and min(be.level(ct) for ct in heap[:4]) > 0:
            heap[k] = be.dot(heap[:2], heap[2:4])
            heap[k] = be.drop_to(heap[k], 0)
        else:
            heap[i], heap[j] = be.bootstrap([heap[i], heap[j]], ["real", "real"])
    return np.array([decrypt(be, ct) for ct in heap])


def test_a_full_disk_loses_nothing(store: SpillStore, monkeypatch: pytest.MonkeyPatch) -> None:
    spilling.leave_disk(monkeypatch, 3000)
    be = spilling.spilling(store, 1)
    cts = [encrypt(be, np.full(4, float(v))) for v in range(2)]
    with pytest.raises(ResourceError, match="are free"):
        for v in range(8):
            cts.append(encrypt(be, np.full(4, float(v + 2))))
    assert [decrypt_anyway(be, ct) for ct in cts] == [float(v) for v in range(len(cts))]


def decrypt_anyway(be: spilling.SpillingBackend, ct: Handle) -> float:
    return float(spilling.CODEC.load(be.pool.packed(ct)).values[0])


def test_a_damaged_file_is_an_error_not_an_answer(store: SpillStore) -> None:
    be = spilling.spilling(store, 1)
    a, b = encrypt(be, np.ones(4)), encrypt(be, np.zeros(4))
    (path,) = store.folder.glob("*.spill")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(FileError, match="damaged"):
        be.add(a, b)
    assert np.allclose(decrypt(be, b), 0.0)
