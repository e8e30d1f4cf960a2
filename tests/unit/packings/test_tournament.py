"""The largest of many numbers in slots: every place can win, near ones share, absent ones lose."""

from __future__ import annotations

import numpy as np
import pytest

from tacita.approx import comparison
from tacita.errors import ShapeError
from tacita.layouts.runs import Answer
from tacita.layouts.vector import VectorLayout
from tacita.packings.base import stages_of
from tacita.packings.operations import CHECK
from tacita.packings.shared.choice import Choice, merges_of, rounds_of
from tacita.slots.plain import PlainBackend
from tacita.slots.stage import Live

SLOTS, BOUND, GAP = 256, 4.0, 0.2
DEEP = 60  # levels, where no placement bootstraps between the stages


def chosen(
    values: np.ndarray, *, slots: int = SLOTS, most: int = 0, off: float = 0.0, seed: int = 0
) -> Answer:
    """The choice among these numbers: the bias of a map that sums a vector of nothing. off: deviation of the
    noise of a number, other in each copy of it."""
    layout, sums = VectorLayout(slots, 4), np.full((len(values), 4), 0.5)
    told = comparison.fit(comparison.share(GAP, BOUND), 1e-5)
    choice = Choice.build((sums, values), layout, (1.0, BOUND), told, most)
    be = PlainBackend(slots, DEEP)
    check = np.zeros(slots)
    check[0] = 0.5
    noise = np.random.default_rng(seed).normal(0.0, off, slots)
    live: Live = {"vector": (be.encrypt(noise),), CHECK: (be.encrypt(check),)}
    for stage in stages_of(choice.operations("vector"), frozenset()):
        live = stage.run(be, live)
    (answer,) = choice.response.read([be.decrypt(ct) for ct in live["answer"]])
    assert answer.sound()
    return answer


@pytest.mark.parametrize("most", [0, 2, 4])
def test_every_place_can_win(most: int) -> None:
    rng = np.random.default_rng(most)
    for place in range(41):
        values = rng.uniform(-BOUND, 0.9 * BOUND - GAP, 41)
        values[place] = 0.9 * BOUND
        found = chosen(values, most=most).values
        assert np.allclose(found, np.arange(41) == place, atol=1e-4)


@pytest.mark.parametrize("count", [1, 2, 5, 16, 17, 33, 64])
def test_absent_numbers_lose_whatever_is_there(count: int) -> None:
    """All numbers near the least that there can be, where padding is."""
    values = np.linspace(-BOUND + GAP * count, -BOUND, count) if count <= 16 else -np.arange(count) / 16
    values = np.clip(values, -BOUND, BOUND)
    values[0] = min(values[0] + GAP, BOUND)
    found = chosen(values).values
    assert len(found) == count and found.argmax() == 0
    assert np.allclose(found.sum(), 1.0, atol=1e-3)


@pytest.mark.parametrize(("first", "second"), [(3, 7), (3, 4), (0, 40), (12, 28)])
def test_two_that_are_equal_share(first: int, second: int) -> None:
    values = np.full(41, -1.0)
    values[[first, second]] = 2.0
    found = chosen(values).values
    assert np.allclose(found[[first, second]], 0.5, atol=1e-3)
    assert np.all(np.delete(found, [first, second]) < 1e-3)


def test_nearer_than_the_gap_the_larger_has_more() -> None:
    for distance in (0.02, 0.05, 0.1):
        values = np.full(41, -1.0)
        values[[5, 30]] = 2.0, 2.0 + distance
        found = chosen(values).values
        assert found[30] > 0.5 > found[5] and abs(found[[5, 30]].sum() - 1.0) < 3e-3


@pytest.mark.parametrize(("count", "second"), [(41, 21), (100, 21), (100, 69)])
def test_near_ones_share_beside_noise(count: int, second: int) -> None:
    """Two numbers meet in several copies, in each of which noise is another one; a third is far behind."""
    values = np.full(count, -1.0)
    values[[5, second]] = 2.0, 1.9
    values[11] = 1.5
    for seed in range(8):
        found = chosen(values, off=0.05, seed=seed).values
        assert abs(found[[5, second]].sum() - 1.0) < 3e-3
        assert np.all(np.delete(found, [5, second]) < 1e-3)


def test_random_numbers_a_gap_apart() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        values = rng.uniform(-BOUND, BOUND - GAP, int(rng.integers(2, 60)))
        values[values.argmax()] = values.max() + GAP
        assert np.allclose(chosen(values).values, values == values.max(), atol=1e-4)


def test_rounds_take_what_fits() -> None:
    def ways(*of: int) -> list[int]:
        return [found.ways for found in rounds_of(*of)]

    assert ways(32768, 2048, 2048) == [16, 128]
    assert ways(32768, 8192, 8000) == [4, 16, 128]
    assert ways(32768, 128, 100) == [128]
    assert ways(32768, 2048, 2048, 2) == [2] * 11
    assert ways(64, 1, 1) == []
    assert ways(32, 32, 30) == [2, 2, 4, 2]
    for slots, size in ((2048, 4096), (2048, 48)):
        with pytest.raises(ShapeError, match="largest of"):
            rounds_of(slots, size, size)


@pytest.mark.parametrize("count", [65, 100, 150, 410, 1000])
def test_vocabularies_of_several_ciphertexts(count: int) -> None:
    """Every place can win, and those where padding begins; words that are equal share, wherever they are."""
    rng, width = np.random.default_rng(count), SLOTS // 4
    for place in {0, width - 1, width, count - 1, *map(int, rng.integers(0, count, 12))}:
        values = rng.uniform(-BOUND, 0.9 * BOUND - GAP, count)
        values[place] = 0.9 * BOUND
        assert np.allclose(chosen(values).values, np.arange(count) == place, atol=1e-4)
        for other in {(place + width) % count, (place + 1) % count}:  # in another ciphertext, and in the same
            values[other] = values[place]
            found = chosen(values).values
            assert np.allclose(found[[place, other]], 0.5, atol=1e-3)
            assert np.all(np.delete(found, [place, other]) < 1e-3)
            values[other] = -BOUND


@pytest.mark.parametrize("count", [41, 64, 100])
@pytest.mark.parametrize("others", [-BOUND, -1.0, 2.0])
def test_numbers_that_share_are_no_obstacle_to_a_larger_one(count: int, others: float) -> None:
    """All others are equal, so that of each group hardly anything is left, whatever their sign."""
    values = np.full(count, others)
    values[17] += GAP
    assert np.allclose(chosen(values).values, np.arange(count) == 17, atol=1e-4)


def test_rounds_across_ciphertexts_take_the_fewest_bootstraps() -> None:
    def groups(count: int, copies: int = 4) -> list[list[int]]:
        return [[len(group) for group in merge.groups] for merge in merges_of(8 * copies, 8, count)]

    assert groups(1) == []
    assert groups(7) == [[2, 2, 3], [3]]
    assert groups(6) == [[2, 2, 2], [3]]
    assert groups(4) == [[4]]
    assert groups(8, copies=1) == [[2] * 4, [2] * 2, [2]]
    (first, _) = merges_of(32, 8, 7)
    assert first.pairs == [(0, 1), (2, 3), (4, 5), (4, 6), (5, 6)]
    assert (first.meeting.n_outputs, first.spreading.n_outputs) == (2, 5)


def test_vectors_that_are_too_long() -> None:
    with pytest.raises(ShapeError, match="100 numbers"):
        chosen(np.zeros(100), slots=8)


def test_differences_are_those_of_all_pairs_of_a_group() -> None:
    be, values = PlainBackend(64), np.linspace(0.1, 0.9, 16)
    (first, *_) = rounds_of(64, 16, 16)
    differences = be.decrypt(first.meet(be, (be.encrypt(values),))[0]).real.reshape(4, 16)
    for k in range(1, 4):
        assert np.allclose(differences[k], values - np.roll(values, -k * first.stride))
    assert np.all(differences[0] == 0.5)
