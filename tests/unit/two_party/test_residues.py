"""Shares modulo powers of two: what is local stays a sharing, at the wrap too."""

from __future__ import annotations

import numpy as np
import pytest

from tacita.two_party.arithmetic.base import Fixed, encode, matmul
from tacita.two_party.arithmetic.residues import Share, from_floats, reconstruct, reduced

RNG = np.random.default_rng(0)


def split(x: np.ndarray, fraction: int, ring: int) -> tuple[Share, Share]:
    whole = from_floats(x, fraction, ring)
    mask = reduced(RNG.integers(0, 1 << 64, x.shape, np.uint64), ring)
    return whole.like(reduced(whole.values - mask, ring)), whole.like(mask)


@pytest.mark.parametrize("ring", [32, 33, 48, 63, 64])
def test_splitting_and_opening_are_inverse(ring: int) -> None:
    top = 2.0 ** (ring - 1 - 18)
    below = top - 2.0 ** max(-18, ring - 1 - 18 - 53)  # the next double
    x = np.concatenate([RNG.normal(size=100), [0.0, -(2.0**-18), 2.0**-18, -top, below]])
    ours, theirs = split(x, 18, ring)
    np.testing.assert_allclose(reconstruct(ours, theirs.values), x, atol=2.0**-19)


@pytest.mark.parametrize(("ring", "to"), [(64, 8), (64, 0), (50, 11), (32, 10)])
def test_dropping_bits_is_local_and_right_on_average(ring: int, to: int) -> None:
    x = RNG.normal(size=10_000) * 2.0 ** (ring - 2 - 18 - 3)
    ours, theirs = (share.scaled(to, client=client) for client, share in enumerate(split(x, 18, ring)))
    assert ours.ring == ring - 18 + to
    error = reconstruct(ours, theirs.values) - x
    assert np.abs(error).max() <= 2.0**-to + 2.0**-18
    assert np.abs(error.mean()) < 0.03 * 2.0**-to + 2.0**-20


def test_scaling_up_makes_the_ring_grow_to_64() -> None:
    x = RNG.normal(size=100)
    ours, theirs = (share.scaled(32, client=False) for share in split(x, 18, 30))
    assert ours.ring == 44
    np.testing.assert_allclose(reconstruct(ours, theirs.values), x, atol=2.0**-19)
    assert split(x, 18, 60)[0].scaled(32, client=True).ring == 64


def test_a_small_ring_does_not_say_the_value_in_a_larger() -> None:
    with pytest.raises(ValueError, match="modulo"):
        split(np.ones(1), 8, 20)[0].reduced(21)


def test_a_share_does_not_show_its_values() -> None:
    assert "[" not in repr(split(np.ones(3), 8, 20)[0])


@pytest.mark.parametrize("bits", [(10, 10), (30, 17), (31, 25), (17, 31), (50, 3)])
def test_integer_products_are_exact(bits: tuple[int, int]) -> None:
    x, y = (
        RNG.integers(-(1 << b), 1 << b, shape) for b, shape in zip(bits, [(3, 5, 16), (16, 7)], strict=True)
    )
    expected = (x.astype(object) @ y.astype(object)).astype(np.int64)
    np.testing.assert_array_equal(matmul(x, y), expected)


def test_integer_products_that_could_overflow_are_refused() -> None:
    with pytest.raises(OverflowError):
        matmul(np.full((1, 2), 1 << 40), np.full((2, 1), 1 << 30))


def test_fewer_fraction_bits_are_rounded() -> None:
    assert Fixed(encode(np.array([-0.7, -0.3, 0.3, 1.0]), 10), 10).at(0).values.tolist() == [-1, 0, 0, 1]
    assert Fixed(np.array([3]), 1).at(3).values.tolist() == [12]
