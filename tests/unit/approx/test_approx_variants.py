"""The papers' functions and those of retrained models, in what is theirs alone; errors, levels and products
are in `test_approx`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacita import approx
from tacita.approx import FitError, arion, inverse, moai, rsqrt
from tacita.approx.activations import gelu
from tacita.approx.poly import constant_spec, exact_power, is_constant, power_weights
from tacita.approx.rsqrt import newton_spec
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend


def products(sim):
    return sum(n for (op, _, _), n in sim.counts.items() if op in ("mul", "square", "dot"))


@pytest.mark.parametrize("squarings", [5, 7, 9])
def test_the_limit_with_the_papers_constants(squarings):
    spec = moai.limit((-9.0, 0.0), squarings, shift=0.0)
    x = np.linspace(-9.0, 0.0, 1001)
    np.testing.assert_allclose(spec.numpy(x), (1.0 + x / 2**squarings) ** 2**squarings, rtol=1e-9)
    assert spec.depth(spec.free_scale()) == squarings + 1
    assert spec.error == pytest.approx(0.271 / 2**squarings, rel=0.1)


def test_wide_gelu_is_close_near_zero_and_relatively_far_out():
    spec, series = moai.gelu((-61.0, 108.0), 2e-2, share=1e-3), arion.gelu((-61.0, 108.0), 2e-2)
    x = np.linspace(-61.0, 108.0, 200001)
    wrong = np.abs(spec.numpy(x) - gelu.exact(x))
    assert wrong[np.abs(x) <= 20.0].max() <= 2e-2
    assert np.all(wrong[x > 20.0] <= 1e-3 * x[x > 20.0])
    assert np.all(wrong <= 1.02 * spec.share * np.abs(x) + 1e-12)
    assert spec.multiplications() < series.multiplications()
    assert approx.free_depth(spec) > approx.free_depth(series)


def test_coupled_steps_have_the_values_of_newtons():
    spec = moai.rsqrt((0.3, 2.5), 1e-3)
    newton = newton_spec(spec.interval, spec.domain, 1, len(spec.newton.steps) + len(spec.steps))
    x = np.geomspace(*spec.domain, 1001)
    np.testing.assert_allclose(spec.numpy(x), newton.numpy(x), rtol=1e-12)
    assert spec.multiplications() == newton.multiplications()
    assert approx.free_depth(spec) == approx.free_depth(newton) + 1


@settings(max_examples=8, deadline=None)
@given(st.floats(0.01, 10.0), st.floats(1.5, 300.0), st.floats(1e-5, 1e-2))
def test_inverse_and_rsqrt_on_any_interval(lo, ratio, error):
    interval = (lo, lo * ratio)
    x = np.geomspace(*interval, 2001)
    for fit, f in ((arion.inverse, inverse.exact), (arion.rsqrt, rsqrt.exact), (moai.rsqrt, rsqrt.exact)):
        spec = fit(interval, error)
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
