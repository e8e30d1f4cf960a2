"""The stated error is exceeded by one of a hundred texts at most, of a batch by one of five hundred, whatever
the texts it rests on."""

from __future__ import annotations

import numpy as np
import pytest

from tacita.plans.error import FEWEST, OF_BATCHES, SHARE, ErrorBound, share_of, tolerance_bound

QUANTILES = {  # where one of a hundred is left, and one of five hundred
    SHARE: {"normal": 2.5758, "exponential": 4.6052, "lognormal": 10.240},
    OF_BATCHES: {"normal": 3.0902, "exponential": 6.2146, "lognormal": 17.783},
}


def drawn(name: str, size: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.abs(getattr(rng, f"standard_{name}" if name != "lognormal" else name)(size=size))


@pytest.mark.parametrize("texts", [50, 100, 300])
@pytest.mark.parametrize("name", QUANTILES[SHARE])
@pytest.mark.parametrize("share", QUANTILES)
def test_nineteen_of_twenty_bounds_leave_the_stated_share(share: float, name: str, texts: int) -> None:
    """The largest error of 100 texts, which a plan stated before, fails in six of ten cases."""
    least = QUANTILES[share][name]
    bounds = np.array([tolerance_bound([*errors], share) for errors in drawn(name, (400, texts))])
    enough = 0.93 if name != "lognormal" else {SHARE: 0.8, OF_BATCHES: 0.5}[share]
    assert np.mean(bounds >= least) >= enough
    assert np.median(bounds) < 1.8 * least


def test_the_largest_error_that_was_seen_is_within_the_bound() -> None:
    assert tolerance_bound([*np.full(99, 0.01), 0.21]) >= 0.21


def test_few_texts_state_no_share() -> None:
    assert (share_of(FEWEST - 1, 64), share_of(FEWEST, 1), share_of(FEWEST, 64)) == (None, SHARE, OF_BATCHES)
    few, many, batch = (ErrorBound(0.5, FEWEST - (not share), share) for share in (None, SHARE, OF_BATCHES))
    assert str(few) == "at most 0.5000 of 19 texts, too few to bound others"
    assert str(many) == "at most 0.5000 for 99 of 100 texts (from 20 texts)"
    assert str(batch) == "at most 0.5000 for 99.8 of 100 texts (from 20 texts)"
    assert tolerance_bound([0.1, 0.3, 0.2]) == 0.3
