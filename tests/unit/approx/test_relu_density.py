"""ReLU fitted to the inputs as they are distributed: its error where they are, its size outside, its place in
a plan."""

from __future__ import annotations

import numpy as np
import pytest

from tacita.approx.activations import relu, relu_squared
from tacita.approx.fit import FitError
from tacita.approx.spec import Spec, free_depth

INTERVAL = (-40.0, 15.0)


def normal(mean: float, deviation: float, bins: int = 64) -> tuple[float, ...]:
    edges = np.linspace(*INTERVAL, bins + 1)
    found = np.exp(-(((edges[1:] + edges[:-1]) / 2 - mean) ** 2) / (2 * deviation**2))
    return tuple(found / found.sum())


def test_the_error_where_inputs_lie_is_the_stated_one_and_far_below_the_minimax_fits():
    density = normal(-10.0, 6.0)
    spec = relu.fit_density(INTERVAL, 2e-4, density)
    rng = np.random.default_rng(0)
    seen = rng.normal(-10.0, 6.0, 200_000)
    seen = seen[(seen > INTERVAL[0]) & (seen < INTERVAL[1])]
    half = (spec.domain[1] - spec.domain[0]) / 2
    found = np.sqrt(np.mean((spec.numpy(seen) - relu.exact(seen)) ** 2))
    assert found <= 1.05 * 2e-4 * half
    even = relu.fit(INTERVAL, 0.05)
    assert free_depth(even) == free_depth(spec)
    assert np.sqrt(np.mean((even.numpy(seen) - relu.exact(seen)) ** 2)) > 4 * found


def test_it_stays_bounded_on_the_whole_domain():
    spec = relu.fit_density(INTERVAL, 2e-4, normal(-10.0, 2.0))
    x = np.linspace(*spec.domain, 5001)
    assert np.abs(spec.numpy(x) - relu.exact(x)).max() <= 1.01 * spec.error < 1.0


def test_less_error_takes_more_degree():
    degrees = [
        len(relu.fit_density(INTERVAL, share, normal(-10.0, 6.0)).coefficients)
        for share in (2e-3, 5e-4, 1e-4)
    ]
    assert degrees == sorted(set(degrees))


def test_an_error_out_of_reach_is_refused():
    with pytest.raises(FitError, match="relu, root mean square"):
        relu.fit_density(INTERVAL, 1e-7, normal(-10.0, 6.0), max_depth=6)


def test_a_squares_error_is_a_share_of_the_results_and_not_of_the_largest():
    """Few inputs reach the end of the interval, whose square is the scale of a fit alike everywhere."""
    interval, rng = (-30.0, 80.0), np.random.default_rng(1)
    seen = np.clip(np.append(rng.normal(-1.0, 4.0, 200_000), rng.uniform(20.0, 80.0, 40)), *interval)
    density = np.histogram(seen, 64, interval)[0] / len(seen)
    spec = relu_squared.fit_density(interval, 2e-3, tuple(density))
    exact = relu_squared.exact(seen)
    size = np.sqrt(np.mean(exact**2))

    def error(fitted: Spec) -> float:
        return float(np.sqrt(np.mean((fitted.numpy(seen) - exact) ** 2)))

    assert error(spec) <= 1.1 * 2e-3 * size
    alike = relu_squared.fit(interval, 3e-4 * interval[1] ** 2)  # what the largest square was the scale of
    assert error(alike) > 4e-3 * size
