"""Approximations: measured errors, depths, evaluation on plain, counts on sim, behaviour outside, JSON."""

from __future__ import annotations

import json
import math
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacita import approx
from tacita.approx import FitError, arion, exp, fit, inverse, moai, rsqrt, softmax
from tacita.approx.activations import erf, gelu, relu, tanh
from tacita.approx.inverse import goldschmidt_spec
from tacita.approx.rsqrt import newton_spec
from tacita.approx.spec import is_free
from tacita.slots.counts import series_depth
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

# name: fit, exact function, interval, stated error, levels at the free scale; products, of the papers' forms
CASES = {
    "exp": (exp.fit, "exp", (-10.0, 10.0), 1e-4, 4, None),
    "exp, wide": (exp.fit, "exp", (-30.0, 22.0), 1e-4, 6, None),
    "gelu": (gelu.fit, gelu.exact, (-8.0, 8.0), 1e-3, 5, None),
    "gelu, narrow": (gelu.fit, gelu.exact, (-4.0, 4.0), 1e-3, 4, None),
    "gelu, wide": (gelu.fit, gelu.exact, (-61.0, 108.0), 2e-3, 8, None),
    "rsqrt": (rsqrt.fit, rsqrt.exact, (1.0, 50.0), 1e-4, 5, None),
    "rsqrt, wide": (rsqrt.fit, rsqrt.exact, (0.75, 2500.0), 1e-3, 8, None),
    "rsqrt, wider": (rsqrt.fit, rsqrt.exact, (0.2, 1616.0), 1e-3, 11, None),
    "inverse": (inverse.fit, inverse.exact, (1.0, 1000.0), 1e-3, 7, None),
    "inverse, wide": (inverse.fit, inverse.exact, (0.02, 400.0), 1e-3, 10, None),
    "tanh": (tanh.fit, tanh.exact, (-10.0, 10.0), 1e-4, 6, None),
    "relu": (relu.fit, relu.exact, (-10.0, 10.0), 1e-2, 8, None),
    "moai exp": (moai.exp, "exp", (-9.0, 0.0), 2e-3, 8, 7),
    "moai inverse": (moai.inverse, inverse.exact, (0.002, 0.2), 1e-3, 6, 10),
    "moai rsqrt": (moai.rsqrt, rsqrt.exact, (0.3, 2.5), 1e-3, 6, 6),
    "moai rsqrt, wide": (moai.rsqrt, rsqrt.exact, (0.75, 2500.0), 1e-3, 14, 18),
    "moai gelu": (moai.gelu, gelu.exact, (-5.0, 4.5), 2e-3, 6, 11),
    "moai gelu, wide": (moai.gelu, gelu.exact, (-61.0, 108.0), 2e-2, 11, 20),
    "arion exp": (arion.exp, "exp", (-9.0, 0.0), 1e-6, 4, 5),
    "arion exp, wide": (arion.exp, "exp", (-60.0, 0.0), 1e-5, 5, 9),
    "arion inverse": (arion.inverse, inverse.exact, (0.002, 0.2), 1e-3, 7, 10),
    "arion rsqrt": (arion.rsqrt, rsqrt.exact, (0.3, 2.5), 1e-3, 5, 7),
    "arion rsqrt, wide": (arion.rsqrt, rsqrt.exact, (0.75, 2500.0), 1e-3, 10, 16),
    "arion gelu": (arion.gelu, gelu.exact, (-5.0, 4.5), 2e-3, 4, 7),
    "arion gelu, wide": (arion.gelu, gelu.exact, (-61.0, 108.0), 2e-2, 8, 23),
}
each = pytest.mark.parametrize("name", CASES)


@lru_cache
def fitted(name):
    fit, _, interval, error, _, _ = CASES[name]
    return fit(interval, error)


def measured(f, spec, x):
    exact = exp.exact(x, spec.shift) if f == "exp" else f(x)
    difference = np.abs(spec.numpy(x) - exact)
    return float(np.max(difference / np.abs(exact) if spec.relative else difference))


def inside(interval, count=20001):
    lo, hi = interval
    return np.geomspace(lo, hi, count) if lo > 0 else np.linspace(lo, hi, count)


@each
def test_fit_meets_the_stated_error_within_the_levels(name):
    _, f, interval, error, levels, multiplications = CASES[name]
    spec = fitted(name)
    assert spec.error <= error
    assert measured(f, spec, inside(interval)) <= spec.error * 1.02 + 1e-14
    assert approx.free_depth(spec) <= levels
    if multiplications is not None:
        assert (approx.free_depth(spec), spec.multiplications()) == (levels, multiplications)


@each
def test_five_percent_outside_the_error_is_still_the_stated_one(name):
    spec, (_, f, (lo, hi), *_) = fitted(name), CASES[name]
    step = 0.05 * (hi - lo)
    outside = (lo * 0.95, hi * 1.05) if lo > 0 else (lo - step, hi + step)
    assert measured(f, spec, np.linspace(*outside, 20001)) <= max(1.05 * spec.error, 1e-12)


@each
@pytest.mark.parametrize("storage", ["raw", "free", "odd"])
def test_evaluation_equals_numpy_and_uses_the_stated_levels_and_products(name, storage):
    spec, interval = fitted(name), CASES[name][2]
    scale = {"raw": 1.0, "free": spec.free_scale(), "odd": 0.03}[storage]
    x, be, sim = inside(interval, 512), PlainBackend(512, 26), SimBackend(512, 26)
    out = spec.evaluate(be, be.encrypt(x * scale), scale, 0.25)
    np.testing.assert_allclose(out.values, 0.25 * spec.numpy(x), rtol=1e-7, atol=1e-9)
    assert 26 - out.level == spec.depth(scale)
    assert 26 - sim.level(spec.evaluate(sim, sim.input(), scale, 0.25)) == spec.depth(scale)
    assert products(sim) == spec.multiplications()


@each
def test_json_round_trip_is_exact(name):
    assert approx.from_dict(json.loads(json.dumps(fitted(name).to_dict()))) == fitted(name)


def test_unknown_kind_and_fields_are_refused():
    spec = tanh.fit((-2.0, 2.0), 1e-2).to_dict()
    with pytest.raises(FitError, match="unknown kind 'spline'"):
        approx.from_dict(spec | {"kind": "spline"})
    with pytest.raises(FitError, match="needs"):
        approx.from_dict({k: v for k, v in spec.items() if k != "coefficients"})


@pytest.mark.parametrize(
    ("fit", "interval", "error", "levels", "message"),
    [
        (
            gelu.fit,
            (-60.0, 60.0),
            1e-8,
            5,
            r"gelu fit: error 1e-08 on \[-60, 60\] not reached within 5 levels",
        ),
        (inverse.fit, (1e-6, 1.0), 1e-6, 6, "inverse"),
        (moai.exp, (-9.0, 0.0), 1e-8, 6, r"exp \(limit\) fit: error 1e-08 on \[-9, 0\] not reached within 6"),
        (arion.inverse, (1e-6, 1.0), 1e-3, 5, r"inverse \(series\)"),
        (moai.rsqrt, (1e-6, 1.0), 1e-3, 6, r"rsqrt \(coupled\)"),
        (arion.rsqrt, (1e-6, 1.0), 1e-6, 6, r"rsqrt \(series, Newton\)"),
        (moai.gelu, (-9.0, 9.0), 1e-3, 4, r"gelu \(extended\)"),
        (arion.gelu, (-60.0, 60.0), 1e-6, 4, r"gelu \(series\)"),
        (arion.exp, (-60.0, 0.0), 1e-9, 3, r"exp \(series\)"),
    ],
)
def test_out_of_reach_errors_name_function_interval_and_best(fit, interval, error, levels, message):
    with pytest.raises(FitError, match=message):
        fit(interval, error, max_depth=levels)


def test_bad_intervals_are_refused():
    for bad in ((1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0)):
        with pytest.raises(FitError, match="empty or not finite"):
            gelu.fit(bad, 1e-2)
    with pytest.raises(FitError, match="must be positive"):
        rsqrt.fit((0.0, 1.0), 1e-2)


def test_remez_is_minimax():
    domain, f = (-1.0, 1.0), np.abs
    minimax, interpolated = fit.remez(f, domain, 30), fit.interpolate(f, domain, 30)
    assert minimax.error == pytest.approx(0.2802 / 30, rel=0.02)  # Bernstein's constant
    assert minimax.error < interpolated.error <= 6.0 * minimax.error  # 1 + (2/pi) log(31)


def test_goldschmidt_is_the_minimax_polynomial_of_its_depth():
    lo, hi = 1.0, 100.0
    for iterations in (2, 4, 6):
        spec = goldschmidt_spec((lo, hi), (lo, hi), iterations)
        predicted = 1.0 / np.cosh(2**iterations * np.arccosh((hi + lo) / (hi - lo)))
        assert spec.error == pytest.approx(predicted, rel=1e-9)
        assert measured(inverse.exact, spec, inside((lo, hi))) == pytest.approx(predicted, rel=1e-3)


@pytest.mark.parametrize("interval", [(0.02, 5.0), (1.0, 900.0), (0.5, 0.6)])
def test_fused_division_saves_a_level(interval):
    spec, be, sim = inverse.fit(interval, 1e-4), PlainBackend(128, 20), SimBackend(128, 20)
    x = inside(interval, 128)
    numerators = [be.encrypt(0.3 * x * np.cos(x)), be.encrypt(-x)]
    scale = spec.free_scale()
    quotients = spec.divide(be, numerators, be.encrypt(x * scale), scale)
    spec.divide(sim, [sim.input(), sim.input()], sim.input(), scale)
    assert products(sim) == 3 * spec.depth(scale) - 1
    for quotient, numerator in zip(quotients, numerators, strict=True):
        assert quotient.level == 20 - spec.depth(scale)
        expected = numerator.values * spec.numpy(x) * spec.divide_factor(scale)
        np.testing.assert_allclose(quotient.values, expected, rtol=1e-9, atol=1e-12)
    assert 0.3 * interval[1] <= spec.divide_factor(scale) <= 3.0 * interval[1]


def test_relaxed_newton_halves_the_error_of_the_plain_step():
    start = newton_spec((1.0, 20.0), (1.0, 20.0), 7, 0).error
    assert newton_spec((1.0, 20.0), (1.0, 20.0), 7, 1).error == pytest.approx(0.75 * start**2, rel=0.05)


def products(sim):
    return sum(n for (op, _, _), n in sim.counts.items() if op in ("mul", "square", "dot"))


def test_series_depth():
    assert [series_depth(d) for d in (1, 2, 3, 4, 31, 32, 63)] == [1, 2, 2, 3, 5, 6, 6]


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 10.0), st.floats(1.5, 2000.0), st.floats(1e-6, 1e-2))
def test_inverse_on_any_interval(lo, ratio, error):
    spec = inverse.fit((lo, lo * ratio), error)
    assert measured(inverse.exact, spec, inside((lo, lo * ratio), 2001)) <= error


@settings(max_examples=15, deadline=None)
@given(st.floats(0.01, 10.0), st.floats(1.5, 200.0), st.sampled_from([1e-2, 1e-3, 1e-4]))
def test_rsqrt_on_any_interval(lo, ratio, error):
    spec = rsqrt.fit((lo, lo * ratio), error)
    assert measured(rsqrt.exact, spec, inside((lo, lo * ratio), 2001)) <= 1.02 * error


@pytest.mark.parametrize(
    ("low", "rounds"), [(-8.0, 1), (-34.0, 1), (-8.0, 3), (-34.0, 2), (-88.0, 2), (-88.0, 3)]
)
def test_softmax_in_rounds(low, rounds):
    """Fits scores that one exponential serves, of 40 nats, whose exponentials it loses, and of 94, as many as
    THOR's table 5 has."""
    rng = np.random.default_rng(7)
    scores = rng.uniform(low, 6.0, (64, 32))
    mask = (rng.random((64, 32)) < 0.8) * 1.0
    mask[:, 0] = 1.0
    keys = mask.sum(axis=1, keepdims=True)
    parts = (np.exp((scores - 6.0) / 2**rounds) * mask / keys).sum(axis=1)
    means = float(parts.min()), float(parts.max())
    spec = softmax.fit((low, 6.0), means, (1e-3, 1e-3), keys=32, shift=6.0, rounds=rounds)
    assert len(spec.rounds) == rounds
    for one in spec.rounds[1:]:
        assert is_free(one.steepest / one.room) and one.inverse.depth() < spec.last.depth()
    squares = softmax.squares(scores, mask, spec, keys)
    assert squares.min() >= 0.0 and squares.max() <= 1.0
    low_sum, high_sum = spec.last.domain
    assert low_sum <= squares.sum(axis=1).min() and squares.sum(axis=1).max() <= high_sum
    powers = np.exp(scores - scores.max(axis=1, keepdims=True)) * mask
    exact = powers / powers.sum(axis=1, keepdims=True)
    assert np.abs(softmax.numpy(scores, mask, spec, keys) - exact).sum(axis=1).max() <= 2e-3


@pytest.mark.parametrize("means", [(2e-7, 0.02), (1e-5, 1.0), (1e-3, 0.1)], ids=["low", "wide", "narrow"])
def test_a_round_stands_the_noise_of_means_and_of_a_stored_inverse(means):
    """Row means that a bootstrap's noise is larger than, and inverses that are small beside the largest; the
    worst of both by which a row can be off."""
    noise = softmax.DEVIATIONS * 3.4e-7
    spec = softmax.fit((-16.0, 16.0), means, (1e-3, 1e-3), keys=128, shift=16.0, noise=3.4e-7)
    x, off = np.geomspace(*means, 1001), noise / math.sqrt(softmax.FEWEST_KEYS)
    for way in (1.0, -1.0):
        (one,) = spec.rounds
        inverse = one.inverse.numpy(x - way * off) + way * noise * one.steepest
        assert np.abs(inverse).max() <= one.steepest * (1.0 + noise)
        for keys in (1, 128):  # of a row: one alone, or all alike
            total = keys * (x * inverse / keys / one.room) ** 2
            assert spec.last.domain[0] <= total.min() and total.max() <= spec.last.domain[1]
            assert np.abs(total * spec.last.numpy(total) - 1.0).max() <= 1e-3


def test_means_below_all_noise_have_no_round():
    with pytest.raises(FitError, match="least row mean"):
        softmax.fit((-16.0, 16.0), (1e-9, 1e-6), (1e-3, 1e-3), keys=128, shift=16.0, noise=3.4e-7)


def test_an_exponential_before_a_round_is_quiet_beside_the_least_mean():
    """One series over 98 nats, of coefficients of 14, is half as noisy as this mean; its square is not."""
    least = 9.4e-8
    spec = softmax.fit((-87.5, 10.4), (least, 3.9e-4), (5e-4, 1e-3), keys=64, shift=10.4, noise=3.7e-10)
    assert spec.power.squarings > 0
    assert exp.noise(spec.power, least) < 0.02 * least


@pytest.mark.parametrize("degree", [0, 1, 3, 4, 5, 15, 16, 23, 64, 65, 127])
def test_a_series_of_many_points_is_that_of_each(degree):
    rng = np.random.default_rng(degree)
    coefficients, u = rng.normal(size=degree + 1), rng.uniform(-1.0, 1.0, size=(3, fit.PIECE // 2 + 1))
    at_once = fit.evaluate_series(coefficients, u)
    assert at_once.shape == u.shape
    assert np.allclose(at_once, np.polynomial.chebyshev.chebval(u, coefficients), rtol=0.0, atol=1e-11)
    few = u[:, :5]
    assert np.array_equal(
        fit.evaluate_series(coefficients, few), np.polynomial.chebyshev.chebval(few, coefficients)
    )


def test_the_least_sum_of_squares_is_that_of_equal_keys():
    """As far off as the first inverse may be, in either direction."""
    scores, mask = np.zeros((1, 32)), np.ones((1, 32))
    spec = softmax.fit((-1.0, 0.0), (0.5, 1.0), (1e-3, 1e-3), keys=32, shift=0.0)
    (total,) = softmax.squares(scores, mask, spec, 32.0).sum(axis=1)
    assert spec.last.domain[0] <= total <= spec.last.domain[1]
    assert np.abs(softmax.numpy(scores, mask, spec, 32.0) - 1 / 32).max() <= 1e-3


def test_erf_of_arrays_is_that_of_numbers_and_pieces_are_the_whole() -> None:
    x = np.concatenate([np.linspace(-7.0, 7.0, 40_001), [0.0, 1e-9, -5.9999, np.inf, -np.inf]])
    wanted = wanted_of(x)
    assert np.abs(erf(x) - wanted).max() <= 3e-16
    whole = 0.5 * x[:-2] * (1.0 + wanted_of(x[:-2] / math.sqrt(2.0)))
    assert np.abs(gelu.exact(x[:-2]) - whole).max() <= 2e-15
    assert np.isnan(gelu.exact(np.array([np.nan]))).all()
    table = np.arange(2.0 * fit.PIECE + 6.0).reshape(2, -1)
    assert np.array_equal(fit.in_pieces(np.sqrt, table), np.sqrt(table))


def wanted_of(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(v) for v in x])
