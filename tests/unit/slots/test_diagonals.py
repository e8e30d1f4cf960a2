"""The table of diagonals: rows of a mapping, one code for each place, pairs that meet in one complex row."""

import numpy as np
import pytest

from tacita.errors import ShapeError
from tacita.slots.diagonals import Diagonals, Halves, codes, nonzero
from tacita.slots.linear import LinearPlan

RNG = np.random.default_rng(3)


def test_codes_are_ordered_as_rows_are():
    table = np.unique(RNG.integers(-9, 9, (300, 3)), axis=0)
    assert np.all(np.diff(codes(table)) > 0)
    shuffled = RNG.permutation(table)
    assert np.array_equal(shuffled[np.argsort(codes(shuffled))], table)


def test_two_rows_that_meet_are_the_parts_of_one():
    table = Diagonals.of({(0, 0, 1): np.array([2.0, 4.0]), (0, 1, 1): np.array([6.0, 8.0])})
    joined = Halves.of(table, np.array([[0, 0, 1], [0, 0, 1]]), np.array([False, True]))
    assert joined.places.tolist() == [[0, 0, 1]]
    assert joined.turned(np.array([0])).tolist() == [[1 - 3j, 2 - 4j]]


def test_rows_of_zeros_are_dropped_and_none_is_refused():
    table = Diagonals.of({(0, 0, 1): np.zeros(2), (0, 0, 2): np.ones(2)})
    assert nonzero(table).places.tolist() == [[0, 0, 2]]
    with pytest.raises(ShapeError, match="all zero"):
        nonzero(Diagonals.of({(0, 0, 1): np.zeros(2)}))


@pytest.mark.parametrize(
    "vectors", [{}, {(0, 0, 0): np.ones(2), (0, 0, 1): np.ones(4)}, {(0, 0, 0): np.ones((2, 2))}]
)
def test_vectors_have_one_period(vectors):
    with pytest.raises(ShapeError, match="shapes"):
        Diagonals.of(vectors)


@pytest.mark.parametrize("imaginary", [False, True])
def test_rows_are_turned_by_their_giants(imaginary):
    rows = {(0, 0, k): RNG.normal(size=8) + (1j * RNG.normal(size=8) if imaginary else 0) for k in range(5)}
    giants = np.array([0, 0, 3, 3, -2])
    wanted = [np.roll(v, giant) for v, giant in zip(rows.values(), giants, strict=True)]
    assert np.array_equal(Diagonals.of(rows).turned(giants), wanted)


def test_halves_are_turned_where_they_lie():
    """Rows of two parts: the third meets the first, and the second is alone."""
    first = Diagonals.of({(0, 0, k): RNG.normal(size=8) for k in range(2)})
    table = Diagonals.joined([first, Diagonals.of({(0, 1, 0): RNG.normal(size=8)})])
    places = np.array([[0, 0, 0], [0, 0, 1], [0, 0, 0]])
    found = Halves.of(table, places, np.array([False, False, True]))
    a, b, c = table.turned(np.zeros(3, int))
    wanted = [np.roll(0.5 * a - 0.5j * c, 3), np.roll(0.5 * b, 1)]
    assert np.array_equal(found.turned(np.array([3, 1])), wanted)


def test_halves_of_imaginary_rows_of_zeros_are_real():
    table = Diagonals.of({(0, 0, 0): np.ones(4), (0, 1, 0): np.zeros(4)})
    found = Halves.of(table, np.array([[0, 0, 0], [0, 0, 0]]), np.array([False, True]))
    vectors = found.turned(np.array([0]))
    assert vectors.dtype == np.float64 and vectors.tolist() == [[0.5] * 4]


def test_plans_of_one_outline_have_their_own_numbers():
    """The step is kept by places; two layers share it and nothing else."""
    maps = [{(0, 0, k): np.full(4, value + k) for k in range(16)} for value in (1.0, 2.0)]
    one, other = (LinearPlan.from_diagonals(m) for m in maps)
    assert np.array_equal(one.terms, other.terms)
    assert not np.any(one.vectors == other.vectors)
