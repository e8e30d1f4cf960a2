"""The LPN estimate covers the sets that the Rust code uses, and its pieces are what they claim."""

import math
import re
from pathlib import Path

import pytest

from bench.kernels import lpn

ROOT = Path(__file__).resolve().parents[3]


def test_sets_are_those_of_the_code_and_have_128_bits() -> None:
    """Names, sizes and row weight agree with params.rs; every set reaches the target."""
    source = (ROOT / "crates/mpc/src/ot/ferret/params.rs").read_text()
    weight = int(re.search(r"const D: usize = (\d+)", source)[1])
    pattern = r"const (SMALL|LARGE): Set = Set \{\s*log: (\d+),\s*t: (\d+),\s*k: ([\d_]+),"
    found = {name: (int(t), int(k), int(log), weight) for name, log, t, k in re.findall(pattern, source)}
    assert found == {name: tuple(rest) for name, *rest in lpn.SETS}
    assert min(lpn.report(*entry) for entry in lpn.SETS) >= lpn.TARGET


def test_pieces_of_the_estimate() -> None:
    """The degree of the algebraic attack against coefficients multiplied out; the densest part against its
    equation."""
    t, m, k = 6, 4, 13
    row = [1.0]
    for factor in [(1, m - 1)] * t + [(1, -1)] * (t * m - k):
        row = [a * factor[0] + b * factor[1] for a, b in zip([*row, 0], [0, *row], strict=True)]
    expected = next(degree for degree, value in enumerate(row) if value <= 0)
    assert lpn.first_non_positive(k, t, m, 20) == expected
    share = lpn.densest_part(16, 10)
    assert 0.5 < share < lpn.random_part(16, 10) < 1
    assert abs(16 * lpn.random_part(16, 10) ** 10 - lpn.random_part(16, 10)) < 1e-9


def test_the_lightest_checks_are_those_of_the_first_moment() -> None:
    """The chance that all columns are met evenly, against its exact sum; the weights and bits that decision 9
    states."""
    k, total = 60, 90
    exact = sum(math.comb(k, j) * ((k - 2 * j) / k) ** total for j in range(k + 1)) / 2**k
    assert lpn.all_even(total / k) == pytest.approx(math.log2(exact) / k, abs=0.03)
    for (_, t, k, log, d), weight, bits in zip(lpn.SETS, (0.119, 0.097), (88, 78), strict=True):
        ratio = (t << log) / k
        assert lpn.lightest_check(ratio, d) == pytest.approx(weight, abs=5e-4)
        assert lpn.lightest_decoding(k, ratio, d, 1 << log) == pytest.approx(bits, abs=0.5)


def test_weak_sets_are_seen() -> None:
    """More noise is safer, and a set without a reserve of columns is not."""
    assert lpn.report("weak", 1024, 1 << 15, 10, 10) < 80
    assert lpn.report("weak", 4971, 124_000, 11, 10) < 80
