"""The stated error is exceeded by one of a hundred texts at most, whatever the texts it rests on."""

from __future__ import annotations

import numpy as np
import pytest

from tacita.plans.error import FEWEST, SHARE, ErrorBound, tolerance_bound

QUANTILES = {"normal": 2.5758, "exponential": 4.6052, "lognormal": 10.240}  # where one of a hundred is left


def drawn(name: str, size: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.abs(getattr(rng, f"standard_{name}" if name != "lognormal" else name)(size=size))


@pytest.mark.parametrize("texts", [50, 100, 300])
@pytest.mark.parametrize("name", QUANTILES)
def test_nineteen_of_twenty_bounds_leave_one_text_of_a_hundred(name: str, texts: int) -> None:
    """The largest error of 100 texts, which a plan stated before, fails in six of ten cases."""
    bounds = np.array([tolerance_bound([*errors]) for errors in drawn(name, (400, texts))])
    assert np.mean(bounds >= QUANTILES[name]) >= (0.93 if name != "lognormal" else 0.8)
    assert np.median(bounds) < 1.8 * QUANTILES[name]


def test_the_largest_error_that_was_seen_is_within_the_bound() -> None:
    assert tolerance_bound([*np.full(99, 0.01), 0.21]) >= 0.21


def test_few_texts_state_no_share() -> None:
    few, many = ErrorBound(0.5, FEWEST - 1), ErrorBound(0.5, FEWEST)
    assert (few.share, many.share) == (None, SHARE)
    assert str(few) == "at most 0.5000 of 19 texts, too few to bound others"
    assert str(many) == "at most 0.5000 for 99 of 100 texts (from 20 texts)"
    assert tolerance_bound([0.1, 0.3, 0.2]) == 0.3
