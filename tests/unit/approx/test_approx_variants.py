"""The papers' functions as variants: stated errors inside and just outside, levels, products, JSON, both
interpreters."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacita import approx
from tacita.approx import FitError, arion, exp, inverse, moai, rsqrt
from tacita.approx.activations import gelu
from tacita.approx.poly import constant_spec, exact_power, is_constant, power_weights
from tacita.approx.rsqrt import newton_spec
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

# name: fit, exact function, interval, stated error, levels and products at the free scale
CASES = {
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


@pytest.fixture(scope="module")
def fitted():
    """Every spec once."""
    return {name: fit(interval, error) for name, (fit, _, interval, error, _, _) in CASES.items()}


def exact(name, spec, x):
    f = CASES[name][1]
    return exp.exact(x, spec.shift) if f == "exp" else f(x)


def measured(name, spec, x):
    wrong = np.abs(spec.numpy(x) - exact(name, spec, x))
    return float(np.max(wrong / np.abs(exact(name, spec, x)) if spec.relative else wrong))


def inside(interval, count=20001):
    lo, hi = interval
    return np.geomspace(lo, hi, count) if lo > 0 else np.linspace(lo, hi, count)


def products(sim):
    return sum(n for (op, _, _), n in sim.counts.items() if op in ("mul", "square", "dot"))


@each
def test_stated_error_levels_and_products(name, fitted):
    _, _, interval, error, levels, multiplications = CASES[name]
    spec = fitted[name]
    assert spec.error <= error
    assert measured(name, spec, inside(interval)) <= 1.02 * spec.error + 1e-14
    assert (approx.free_depth(spec), spec.multiplications()) == (levels, multiplications)


@each
def test_five_percent_outside_the_error_is_still_the_stated_one(name, fitted):
    spec, (lo, hi) = fitted[name], CASES[name][2]
    step = 0.05 * (hi - lo)
    outside = (lo * 0.95, hi * 1.05) if lo > 0 else (lo - step, hi + step)
    assert measured(name, spec, np.linspace(*outside, 20001)) <= 1.05 * spec.error


@each
@pytest.mark.parametrize("storage", ["raw", "free", "odd"])
def test_evaluation_equals_numpy_and_uses_the_stated_levels(name, storage, fitted):
    spec, interval = fitted[name], CASES[name][2]
    scale = {"raw": 1.0, "free": spec.free_scale(), "odd": 0.03}[storage]
    x, be, sim = inside(interval, 512), PlainBackend(512, 26), SimBackend(512, 26)
    out = spec.evaluate(be, be.encrypt(x * scale), scale, 0.25)
    np.testing.assert_allclose(out.values, 0.25 * spec.numpy(x), rtol=1e-7, atol=1e-9)
    assert 26 - out.level == spec.depth(scale)
    assert 26 - sim.level(spec.evaluate(sim, sim.input(), scale, 0.25)) == spec.depth(scale)
    assert products(sim) == spec.multiplications()


@each
def test_json_round_trip_is_exact(name, fitted):
    assert approx.from_dict(json.loads(json.dumps(fitted[name].to_dict()))) == fitted[name]


def test_out_of_reach_errors_name_function_interval_and_best():
    with pytest.raises(
        FitError, match=r"exp \(limit\) fit: error 1e-08 on \[-9, 0\] not reached within 6 levels"
    ):
        moai.exp((-9.0, 0.0), 1e-8, max_depth=6)
    with pytest.raises(FitError, match=r"inverse \(series\)"):
        arion.inverse((1e-6, 1.0), 1e-3, max_depth=5)
    with pytest.raises(FitError, match=r"rsqrt \(coupled\)"):
        moai.rsqrt((1e-6, 1.0), 1e-3, max_depth=6)
    with pytest.raises(FitError, match=r"rsqrt \(series, Newton\)"):
        arion.rsqrt((1e-6, 1.0), 1e-6, max_depth=6)
    with pytest.raises(FitError, match=r"gelu \(extended\)"):
        moai.gelu((-9.0, 9.0), 1e-3, max_depth=4)
    with pytest.raises(FitError, match=r"gelu \(series\)"):
        arion.gelu((-60.0, 60.0), 1e-6, max_depth=4)
    with pytest.raises(FitError, match=r"exp \(series\)"):
        arion.exp((-60.0, 0.0), 1e-9, max_depth=3)


@pytest.mark.parametrize("squarings", [5, 7, 9])
def test_the_limit_with_the_papers_constants(squarings):
    spec = moai.limit((-9.0, 0.0), squarings, shift=0.0)
    x = np.linspace(-9.0, 0.0, 1001)
    np.testing.assert_allclose(spec.numpy(x), (1.0 + x / 2**squarings) ** 2**squarings, rtol=1e-9)
    assert spec.depth(spec.free_scale()) == squarings + 1
    assert spec.error == pytest.approx(0.271 / 2**squarings, rel=0.1)


def test_wide_gelu_is_close_near_zero_and_relatively_far_out(fitted):
    spec = moai.gelu((-61.0, 108.0), 2e-2, share=1e-3)
    x = np.linspace(-61.0, 108.0, 200001)
    wrong = np.abs(spec.numpy(x) - gelu.exact(x))
    assert wrong[np.abs(x) <= 20.0].max() <= 2e-2
    assert np.all(wrong[x > 20.0] <= 1e-3 * x[x > 20.0])
    assert np.all(wrong <= 1.02 * spec.share * np.abs(x) + 1e-12)
    assert spec.multiplications() < fitted["arion gelu, wide"].multiplications()
    assert approx.free_depth(spec) > approx.free_depth(fitted["arion gelu, wide"])


def test_coupled_steps_have_the_values_of_newtons():
    spec = moai.rsqrt((0.3, 2.5), 1e-3)
    newton = newton_spec(spec.interval, spec.domain, 1, len(spec.newton.steps) + len(spec.steps))
    x = inside(spec.domain, 1001)
    np.testing.assert_allclose(spec.numpy(x), newton.numpy(x), rtol=1e-12)
    assert spec.multiplications() == newton.multiplications()
    assert approx.free_depth(spec) == approx.free_depth(newton) + 1


@settings(max_examples=8, deadline=None)
@given(st.floats(0.01, 10.0), st.floats(1.5, 300.0), st.floats(1e-5, 1e-2))
def test_inverse_and_rsqrt_on_any_interval(lo, ratio, error):
    interval = (lo, lo * ratio)
    for fit, f in ((arion.inverse, inverse.exact), (arion.rsqrt, rsqrt.exact), (moai.rsqrt, rsqrt.exact)):
        spec, x = fit(interval, error), inside(interval, 2001)
        assert np.max(np.abs(spec.numpy(x) / f(x) - 1.0)) <= 1.02 * error


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 7])
def test_power_is_exact_and_bounded(degree):
    interval, offset = (-4.0, 6.0), 5.0
    spec, even = power_weights(interval, offset, degree, 2.0)
    top = max(abs(end + offset) for end in spec.domain)
    assert even.value == top**degree / 2.0
    x, be = np.linspace(*spec.domain, 512), PlainBackend(512, 10)
    np.testing.assert_allclose(spec.numpy(x), ((x + offset) / top) ** degree, atol=1e-13)
    assert np.abs(spec.numpy(x)).max() == pytest.approx(1.0)
    out = spec.evaluate(be, be.encrypt(x * spec.free_scale()), spec.free_scale())
    np.testing.assert_allclose(out.values, exact_power(x, offset, degree) / top**degree, atol=1e-12)
    assert 10 - out.level == max(1, int(np.ceil(np.log2(degree + 1))))
    assert approx.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    with pytest.raises(FitError, match="power 16"):
        power_weights(interval, offset, 16, 2.0)


def test_constant_ignores_its_input_in_no_level():
    spec, be, sim = constant_spec("inverse", (0.0, 2.0), 3.0), PlainBackend(8, 4), SimBackend(8, 4)
    out = spec.evaluate(be, be.encrypt(np.arange(8.0)), spec.free_scale(), 0.5)
    np.testing.assert_array_equal(out.values, np.full(8, 1.5))
    assert out.level == 4
    spec.evaluate(sim, sim.input())
    assert products(sim) == spec.multiplications() == 0
    assert is_constant(spec)
    assert not is_constant(power_weights((0.0, 1.0), 1.0, 2, 1.0)[0])
    assert approx.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    np.testing.assert_array_equal(spec.numpy(np.zeros(3)), np.full(3, 3.0))
