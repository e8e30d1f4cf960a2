"""Fourier extensions: stated errors on the whole domain, noise, levels, counts, JSON, pairs, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tacita import approx
from tacita.approx import FitError, fourier
from tacita.approx.activations import WIDE, gelu, gelu_refreshed, tanh
from tacita.approx.fourier import FourierSpec, fourier_spec
from tacita.approx.spec import half_width
from tacita.packings.encoding import Argument, apply_all, output_bound
from tacita.slots.bootstraps import PHASE
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

# exact function, domain, stated error, levels below the top, most harmonics
CASES = {
    "gelu": (gelu.exact, (-8.0, 8.0), 1e-3, 3, 11),
    "gelu, wide": (gelu.exact, (-64.0, 128.0), 2e-3, 6, 127),
    "exp on 28 nats": (np.exp, (-28.0, 0.0), 5e-4, 3, 12),
    "tanh": (np.tanh, (-6.0, 5.0), 1e-3, 3, 15),
    "1/x": (lambda x: 1.0 / np.asarray(x), (0.2, 4.0), 1e-3, 4, 31),
}
each = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def fitted():
    return {name: fourier.fit("f", f, on, on, error) for name, (f, on, error, _, _) in CASES.items()}


@each
def test_the_error_holds_on_the_whole_domain(name, fitted):
    f, domain, error, depth, most = CASES[name]
    x, spec = np.linspace(*domain, 20011), fitted[name]
    worst = float(np.max(np.abs(spec.numpy(x) - f(x))))
    assert worst <= error and worst <= spec.error * 1.01
    assert spec.depth(spec.free_scale()) == depth
    assert len(spec.cosines) - 1 <= most


@each
def test_noise_is_not_amplified_beyond_the_functions_own_variation(name, fitted):
    f, domain, error, _, _ = CASES[name]
    variation = float(np.sum(np.abs(np.diff(f(np.linspace(*domain, 20001))))))
    harmonics = fitted[name].harmonics
    growth = float(np.sum(np.arange(len(harmonics)) * np.abs(harmonics)))  # of an error of the engine's z
    assert growth < 128.0 * variation
    assert growth * 2.0**-27 < 0.01 * error


@each
def test_numpy_is_what_backends_compute(name, fitted):
    spec, be = fitted[name], PlainBackend(256)
    form = Argument.of(spec)
    x = np.linspace(*spec.domain, 256)
    ct = be.encrypt((x - form.centre) * form.scale, 0)
    (out,) = apply_all(be, (ct,), spec, 0.5)
    assert np.max(np.abs(be.decrypt(out) - 0.5 * spec.numpy(x))) < 1e-9 * output_bound(spec)
    assert be.level(out) == be.max_level - spec.depth(spec.free_scale())


def test_two_ciphertexts_share_a_bootstrap_and_a_third_has_its_own(fitted):
    spec, rng = fitted["gelu"], np.random.default_rng(0)
    sim, x = SimBackend(64, values=True), rng.uniform(-1.0, 1.0, (3, 64))
    found = spec.evaluate_all(sim, [sim.encrypt(v, 0) for v in x], spec.free_scale())
    for v, ct in zip(x, found, strict=True):
        wanted = gelu.exact(v * half_width(spec.domain))
        assert np.max(np.abs(sim.decrypt(ct) - wanted)) <= 1.01 * spec.error
    counted = {op: n for (op, level, _), n in sim.counts.items() if op.startswith("bootstrap")}
    assert counted == {"bootstrap_through": 1, "bootstrap_through_real": 1}
    products = sum(n for (op, _, _), n in sim.counts.items() if op == "mul")
    assert products == 3 * spec.multiplications()


def test_a_spec_survives_json(fitted):
    spec = fitted["gelu"]
    assert isinstance(spec, FourierSpec) and spec.refreshes
    assert approx.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_a_wide_domain_needs_no_calibration():
    narrow = gelu_refreshed.fit((-3.0, 3.5), 2e-3)
    assert narrow.domain == WIDE and narrow.interval == (-3.0, 3.5)
    wider = gelu_refreshed.fit((-10.0, 140.0), 2e-3)
    assert wider.domain[0] == -64.0 and wider.domain[1] > 140.0
    for x in (-61.0, 108.0):
        assert abs(narrow.numpy(np.array([x]))[0] - gelu.exact(np.array([x]))[0]) <= 2e-3


def test_the_extension_is_periodic_and_bounded():
    """Between the ends of the domain and the other side of the circle nothing is large."""
    spec = fourier_spec("tanh", tanh.exact, (-4.0, 4.0), (-4.0, 4.0), 15)
    once_round = 2.0 * np.pi / PHASE * half_width(spec.domain)
    x = np.linspace(-4.0, -4.0 + once_round, 4001)
    assert np.allclose(spec.numpy(x), spec.numpy(x + once_round))
    assert np.max(np.abs(spec.numpy(x))) < 1.5


def test_what_is_out_of_reach_is_said():
    with pytest.raises(FitError, match=r"error 1e-06 on \[-64, 128\] not reached within 5 levels"):
        fourier.fit("gelu", gelu.exact, (-8.0, 8.0), (-64.0, 128.0), 1e-6, max_depth=5)
    with pytest.raises(FitError, match="empty or not finite"):
        fourier_spec("gelu", gelu.exact, (0.0, 0.0), (1.0, 1.0), 7)
