"""Comparisons: 1 above the gap, 0 below it, in order between; and the polynomial that smooths a choice."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacita.approx import comparison
from tacita.approx.comparison import Comparison, fit, levels, share, sharpen_spec, smooth_spec, step_spec
from tacita.approx.fit import FitError
from tacita.packings.encoding import apply, apply_all
from tacita.slots.bootstraps import level_after
from tacita.slots.plain import PlainBackend

ERROR, TOP = 1e-4, 1.3  # how far beyond the range of differences the step stays a step
GAPS = (0.1, 0.03, 0.01, 0.002, 0.0005)


@pytest.fixture(scope="module", params=GAPS)
def found(request: pytest.FixtureRequest) -> Comparison:
    return fit(request.param, ERROR)


def beyond(gap: float) -> np.ndarray:
    """Other points than those that measured the fit."""
    return np.concatenate([np.geomspace(gap, TOP, 30011), np.linspace(gap, TOP, 40013)])


def test_differences_beyond_the_gap_are_told(found: Comparison) -> None:
    u = beyond(found.gap)
    assert found.error <= ERROR
    assert np.max(np.abs(found.numpy(u) - 1.0)) <= found.error
    assert np.max(np.abs(found.numpy(-u))) <= found.error


def test_nearer_ones_lie_between_on_the_right_side(found: Comparison) -> None:
    u = np.geomspace(found.gap * 1e-3, found.gap, 5003)
    larger, smaller = found.numpy(u), found.numpy(-u)
    assert np.all(larger > 0.5) and np.all(smaller < 0.5)
    assert np.all(larger <= 1.0 + found.error) and np.all(smaller >= -found.error)
    assert found.numpy(np.zeros(1))[0] == 0.5


@settings(max_examples=60, deadline=None)
@given(st.floats(-1.0, 1.0))
def test_one_of_two_is_larger(u: float) -> None:
    """Both ways add up to 1, whatever the difference: two that are near share what there is."""
    found = fit(0.01, ERROR)
    there, back = found.numpy(np.array([u])), found.numpy(np.array([-u]))
    assert np.allclose(there + back, 1.0, atol=1e-12)


def test_half_the_gap_takes_a_level() -> None:
    wide, narrow = fit(0.004, ERROR), fit(0.002, ERROR)
    assert levels(narrow) == levels(wide) + 1
    errors = [step_spec(0.01, harmonics).error for harmonics in (31, 63, 127, 255)]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 1e-2


def test_ciphertexts_are_compared_as_numbers(found: Comparison) -> None:
    be = PlainBackend(slots=1024)
    u = np.linspace(-1.0, 1.0, 1024)
    signs = apply_all(be, (be.encrypt(u, 0),), found.step, found.sharpen.free_scale())
    level_after(found.step.harmonics, 13)
    assert np.max(np.abs(be.decrypt(signs[0]))) <= 1.0 + 1e-9  # stored values
    larger = apply(be, signs[0], found.sharpen)
    assert np.allclose(be.decrypt(larger).real, found.numpy(u), atol=1e-9)
    assert be.level(larger) == be.max_level + 1 - levels(found)


def test_a_stored_comparison_is_the_same() -> None:
    found = fit(0.01, ERROR)
    assert Comparison.from_plain(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize(
    "change",
    [
        {"gap": "0.1"},
        {"gap": True},
        {"further": 1},
        {"step": sharpen_spec(0.1, 3).to_dict()},
        {"sharpen": step_spec(0.1, 15).to_dict()},
    ],
)
def test_data_that_is_no_comparison(change: dict[str, object]) -> None:
    with pytest.raises(FitError, match="comparison"):
        Comparison.from_plain(fit(0.01, ERROR).to_dict() | change)
    with pytest.raises(FitError, match="comparison"):
        Comparison.from_plain([])


@pytest.mark.parametrize("gap", [0.0, -0.1, 0.5, 1e-5, float("nan")])
def test_gaps_that_cannot_be_told(gap: float) -> None:
    with pytest.raises(FitError, match="gap"):
        fit(gap, ERROR)


def test_no_step_is_fine_enough() -> None:
    with pytest.raises(FitError, match="511 harmonics"):
        fit(comparison.LEAST_GAP, 1e-9)


def test_a_gap_is_a_share_of_twice_the_bound() -> None:
    assert share(0.1, 25.0) == 0.002


def test_smoothed_shares() -> None:
    smooth, x = smooth_spec(), np.linspace(0.0, 0.05, 101)
    assert smooth.depth(smooth.free_scale()) == 3
    assert np.all(np.abs(smooth.numpy(x)) <= 35.0 * x**4 + 1e-15)
    assert np.all(np.abs(smooth.numpy(1.0 - x) - 1.0) <= 35.0 * x**4 + 1e-14)
    p = np.linspace(0.0, 1.0, 101)
    assert np.allclose(smooth.numpy(p) + smooth.numpy(1.0 - p), 1.0, atol=1e-13)
    assert np.all(np.diff(smooth.numpy(p)) >= -1e-15)
