"""The table of diagonals: rows of a mapping, one code for each place, pairs that meet in one complex row."""

import numpy as np
import pytest

from tacita.errors import ShapeError
from tacita.slots.linear import Diagonals, _codes

RNG = np.random.default_rng(3)


def test_codes_are_ordered_as_rows_are():
    table = np.unique(RNG.integers(-9, 9, (300, 3)), axis=0)
    assert np.all(np.diff(_codes(table)) > 0)
    shuffled = RNG.permutation(table)
    assert np.array_equal(shuffled[np.argsort(_codes(shuffled))], table)


def test_two_rows_that_meet_are_the_parts_of_one():
    table = Diagonals.of({(0, 0, 1): np.array([2.0, 4.0]), (0, 1, 1): np.array([6.0, 8.0])})
    joined = table.halves(np.array([[0, 0, 1], [0, 0, 1]]), np.array([False, True]))
    assert joined.places.tolist() == [[0, 0, 1]]
    assert joined.vectors.tolist() == [[1 - 3j, 2 - 4j]]


def test_rows_of_zeros_are_dropped_and_none_is_refused():
    table = Diagonals.of({(0, 0, 1): np.zeros(2), (0, 0, 2): np.ones(2)})
    assert table.nonzero().places.tolist() == [[0, 0, 2]]
    with pytest.raises(ShapeError, match="all zero"):
        Diagonals.of({(0, 0, 1): np.zeros(2)}).nonzero()


@pytest.mark.parametrize(
    "vectors", [{}, {(0, 0, 0): np.ones(2), (0, 0, 1): np.ones(4)}, {(0, 0, 0): np.ones((2, 2))}]
)
def test_vectors_have_one_period(vectors):
    with pytest.raises(ShapeError, match="shapes"):
        Diagonals.of(vectors)
