"""Approximations: measured errors, depths, evaluation on plain, counts on sim, behaviour outside, JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacita import approx
from tacita.approx import FitError, exp, fit, inverse, rsqrt, softmax
from tacita.approx.activations import gelu, relu, tanh
from tacita.approx.inverse import goldschmidt_spec
from tacita.approx.rsqrt import newton_spec
from tacita.slots.counts import series_depth
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

# function, interval, stated error, levels allowed at the free scale
CASES = [
    (exp, (-10.0, 10.0), 1e-4, 4),
    (exp, (-30.0, 22.0), 1e-4, 6),
    (gelu, (-8.0, 8.0), 1e-3, 5),
    (gelu, (-4.0, 4.0), 1e-3, 4),
    (gelu, (-61.0, 108.0), 2e-3, 8),
    (rsqrt, (1.0, 50.0), 1e-4, 5),
    (rsqrt, (0.75, 2500.0), 1e-3, 8),
    (rsqrt, (0.2, 1616.0), 1e-3, 11),
    (inverse, (1.0, 1000.0), 1e-3, 7),
    (inverse, (0.02, 400.0), 1e-3, 10),
    (tanh, (-10.0, 10.0), 1e-4, 6),
    (relu, (-10.0, 10.0), 1e-2, 8),
]
NAMES = {exp: "exp", inverse: "inverse", rsqrt: "rsqrt", gelu: "gelu", tanh: "tanh", relu: "relu"}
IDS = [f"{NAMES[case[0]]}{case[1]}" for case in CASES]


def exact(module, spec, x):
    return module.exact(x, spec.shift) if module is exp else module.exact(x)


def measured(module, spec, x):
    difference = np.abs(spec.numpy(x) - exact(module, spec, x))
    return float(np.max(difference / np.abs(exact(module, spec, x)) if spec.relative else difference))


def inside(interval, count=20001):
    lo, hi = interval
    return np.geomspace(lo, hi, count) if lo > 0 else np.linspace(lo, hi, count)


@pytest.mark.parametrize(("module", "interval", "error", "levels"), CASES, ids=IDS)
def test_fit_meets_the_stated_error_within_the_levels(module, interval, error, levels):
    spec = module.fit(interval, error)
    assert spec.error <= error
    assert measured(module, spec, inside(interval)) <= spec.error * 1.02 + 1e-14
    assert approx.free_depth(spec) <= levels


@pytest.mark.parametrize(("module", "interval", "error", "levels"), CASES, ids=IDS)
def test_five_percent_outside_the_error_is_still_the_stated_one(module, interval, error, levels):
    spec = module.fit(interval, error)
    lo, hi = interval
    step = 0.05 * (hi - lo)
    outside = (lo * 0.95, hi * 1.05) if lo > 0 else (lo - step, hi + step)
    assert measured(module, spec, np.linspace(*outside, 20001)) <= max(1.05 * spec.error, 1e-12)


@pytest.mark.parametrize(("module", "interval", "error", "levels"), CASES, ids=IDS)
@pytest.mark.parametrize("storage", ["raw", "free", "odd"])
def test_evaluation_equals_numpy_and_uses_the_stated_levels(module, interval, error, levels, storage):
    spec = module.fit(interval, error)
    scale = {"raw": 1.0, "free": spec.free_scale(), "odd": 0.3 / interval[1]}[storage]
    x, be = inside(interval, 512), PlainBackend(512, 20)
    out = spec.evaluate(be, be.encrypt(x * scale), scale, 0.25)
    np.testing.assert_allclose(out.values, 0.25 * spec.numpy(x), rtol=1e-8, atol=1e-10)
    assert 20 - out.level == spec.depth(scale)


@pytest.mark.parametrize(("module", "interval", "error", "levels"), CASES, ids=IDS)
def test_json_round_trip_is_exact(module, interval, error, levels):
    for spec in (module.fit(interval, error), module.fit(interval, 100 * error)):
        assert approx.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_unknown_kind_and_fields_are_refused():
    spec = tanh.fit((-2.0, 2.0), 1e-2).to_dict()
    with pytest.raises(FitError, match="unknown kind 'spline'"):
        approx.from_dict(spec | {"kind": "spline"})
    with pytest.raises(FitError, match="needs"):
        approx.from_dict({k: v for k, v in spec.items() if k != "coefficients"})


def test_out_of_reach_errors_name_function_interval_and_best():
    with pytest.raises(FitError, match=r"gelu fit: error 1e-08 on \[-60, 60\] not reached within 5 levels"):
        gelu.fit((-60.0, 60.0), 1e-8, max_depth=5)
    with pytest.raises(FitError, match="inverse"):
        inverse.fit((1e-6, 1.0), 1e-6, max_depth=6)
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
        assert measured(inverse, spec, inside((lo, hi))) == pytest.approx(predicted, rel=1e-3)


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


@pytest.mark.parametrize(("module", "interval", "error", "levels"), CASES, ids=IDS)
def test_product_counts_and_levels_agree_with_sim(module, interval, error, levels):
    for spec in [module.fit(interval, error * more) for more in (1, 10, 100)]:
        sim, scale = SimBackend(512, 20), spec.free_scale()
        out = spec.evaluate(sim, sim.input(), scale)
        assert products(sim) == spec.multiplications()
        assert 20 - sim.level(out) == approx.free_depth(spec)


def products(sim):
    return sum(n for (op, _, _), n in sim.counts.items() if op in ("mul", "square", "dot"))


def test_series_depth():
    assert [series_depth(d) for d in (1, 2, 3, 4, 31, 32, 63)] == [1, 2, 2, 3, 5, 6, 6]


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 10.0), st.floats(1.5, 2000.0), st.floats(1e-6, 1e-2))
def test_inverse_on_any_interval(lo, ratio, error):
    spec = inverse.fit((lo, lo * ratio), error)
    assert measured(inverse, spec, inside((lo, lo * ratio), 2001)) <= error


@settings(max_examples=15, deadline=None)
@given(st.floats(0.01, 10.0), st.floats(1.5, 200.0), st.sampled_from([1e-2, 1e-3, 1e-4]))
def test_rsqrt_on_any_interval(lo, ratio, error):
    spec = rsqrt.fit((lo, lo * ratio), error)
    assert measured(rsqrt, spec, inside((lo, lo * ratio), 2001)) <= 1.02 * error


@pytest.mark.parametrize("low", [-8.0, -34.0])
def test_softmax_in_two_phases(low):
    """Of scores that one exponential serves, and of 40 nats, whose exponentials it loses."""
    rng = np.random.default_rng(7)
    scores = rng.uniform(low, 6.0, (64, 32))
    mask = (rng.random((64, 32)) < 0.8) * 1.0
    mask[:, 0] = 1.0
    halves = (np.exp((scores - 6.0) / 2) * mask).sum(axis=1) / mask.sum(axis=1)
    means = float(halves.min()), float(halves.max())
    spec = softmax.fit((low, 6.0), means, (1e-3, 1e-3), keys=32, shift=6.0)
    assert spec.first.depth() < spec.second.depth()
    squares = softmax.squares(scores, mask, spec)
    assert squares.min() >= 0.0 and squares.max() <= 1.0
    low_sum, high_sum = spec.second.domain
    assert low_sum <= squares.sum(axis=1).min() and squares.sum(axis=1).max() <= high_sum
    powers = np.exp(scores - scores.max(axis=1, keepdims=True)) * mask
    exact = powers / powers.sum(axis=1, keepdims=True)
    assert np.abs(softmax.numpy(scores, mask, spec) - exact).sum(axis=1).max() <= 2e-3


@pytest.mark.parametrize("means", [(2e-7, 0.02), (1e-5, 1.0), (1e-3, 0.1)], ids=["low", "wide", "narrow"])
def test_two_phases_stand_the_noise_of_means_and_of_a_stored_inverse(means):
    """Row means that a bootstrap's noise is larger than, and inverses that are small beside the largest; the
    worst of both by which a row can be off."""
    noise = softmax.DEVIATIONS * 3.4e-7
    spec = softmax.fit((-16.0, 16.0), means, (1e-3, 1e-3), keys=128, shift=16.0, noise=3.4e-7)
    x, off = np.geomspace(*means, 1001), noise / math.sqrt(softmax.FEWEST_KEYS)
    for way in (1.0, -1.0):
        inverse = spec.first.numpy(x - way * off) + way * noise * spec.steepest
        assert np.abs(inverse).max() <= spec.steepest * (1.0 + noise)
        for keys in (1, 128):  # of a row: one alone, or all alike
            total = keys * (x * inverse / keys / spec.room) ** 2
            assert spec.second.domain[0] <= total.min() and total.max() <= spec.second.domain[1]
            assert np.abs(total * spec.second.numpy(total) - 1.0).max() <= 1e-3


def test_means_below_all_noise_have_no_two_phases():
    with pytest.raises(FitError, match="least row mean"):
        softmax.fit((-16.0, 16.0), (1e-9, 1e-6), (1e-3, 1e-3), keys=128, shift=16.0, noise=3.4e-7)


def test_the_least_sum_of_squares_is_that_of_equal_keys():
    """As far off as the first inverse may be, in either direction."""
    scores, mask = np.zeros((1, 32)), np.ones((1, 32))
    spec = softmax.fit((-1.0, 0.0), (0.5, 1.0), (1e-3, 1e-3), keys=32, shift=0.0)
    (total,) = softmax.squares(scores, mask, spec).sum(axis=1)
    assert spec.second.domain[0] <= total <= spec.second.domain[1]
    assert np.abs(softmax.numpy(scores, mask, spec) - 1 / 32).max() <= 1e-3
