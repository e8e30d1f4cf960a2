"""Fourier extensions: stated errors on the whole domain, noise, levels, counts, JSON, pairs, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tacita import approx
from tacita.approx import FitError, fourier
from tacita.approx.activations import REFRESHED, WIDE, gelu, tanh
from tacita.approx.fourier import NEAR, FourierSpec, Table, fourier_spec
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
    narrow = REFRESHED["gelu"].fit((-3.0, 3.5), 2e-3)
    assert narrow.domain == WIDE and narrow.interval == (-3.0, 3.5)
    wider = REFRESHED["gelu"].fit((-10.0, 140.0), 2e-3)
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


WHOLE = np.arange(-8.0, 9.0)
TABLES = {
    "step": (WHOLE, np.where(WHOLE >= 0.0, 1.0, 0.0)),
    "sign": (WHOLE, np.sign(WHOLE)),
    "relu": (WHOLE, np.maximum(WHOLE, 0.0)),
    "stairs of uneven width": (np.array([-3.0, -1.0, 0.5, 1.0, 4.0]), np.array([2.0, 2.0, -1.0, 7.0, 0.0])),
    "shuffled": (np.arange(32.0), np.random.default_rng(7).permutation(32).astype(np.float64)),
}
each_table = pytest.mark.parametrize("name", TABLES)


def table_of(name):
    points, values = TABLES[name]
    return Table(tuple(map(float, points)), tuple(map(float, values)))


@each_table
def test_a_table_is_exact_at_its_points_and_flat_around_them(name):
    points, values = TABLES[name]
    spec, size = table_of(name).fit(name, 1e-3 * np.abs(values).max()), np.abs(values).max()
    assert spec.refreshes and spec.domain == (points[0], points[-1]) and spec.error <= 1e-3 * size
    assert np.max(np.abs(spec.numpy(points) - values)) < 1e-9 * size
    noise = NEAR * half_width(spec.domain)
    for moved in (points - noise, points + noise):
        assert np.max(np.abs(spec.numpy(moved) - values)) <= spec.error
    twice, once = (np.max(np.abs(spec.numpy(points + n * noise) - values)) for n in (2.0, 1.0))
    assert twice > 3.0 * once  # the square of the noise


def test_a_table_goes_through_the_same_bootstrap_as_gelu():
    table, be = table_of("shuffled"), SimBackend(32, values=True)
    spec = table.fit("shuffled", 0.03)
    scale = spec.free_scale()
    (out,) = spec.evaluate_all(be, [be.encrypt(scale * np.array(table.points), 0)], scale)
    assert np.array_equal(np.round(be.decrypt(out).real), table.values)
    assert [op for op, _, _ in be.counts if "bootstrap" in op] == ["bootstrap_through_real"]
    assert be.level(out) == be.max_level - spec.depth(scale)
    assert isinstance(approx.from_dict(json.loads(json.dumps(spec.to_dict()))), FourierSpec)


def test_between_two_points_a_table_means_the_nearer_one():
    table = table_of("stairs of uneven width")
    x = np.array([-9.0, -3.0, -2.1, -1.9, 0.7, 0.8, 2.4, 2.6, 9.0])
    assert np.array_equal(table.numpy(x), [2.0, 2.0, 2.0, 2.0, -1.0, 7.0, 7.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("points", "values", "why"),
    [
        ((0.0,), (1.0,), "1 points and 1 values"),
        ((0.0, 1.0), (1.0,), "2 points and 1 values"),
        (tuple(map(float, range(257))), (0.0, *(1.0,) * 256), "257 points"),
        ((0.0, 1.0, 1.0), (0.0, 1.0, 2.0), "do not ascend"),
        ((1.0, 0.0), (0.0, 1.0), "do not ascend"),
        ((0.0, float("nan")), (0.0, 1.0), "'nan' is no number"),
        ((0.0, 1.0), (0.0, float("inf")), "'inf' is no number"),
        ((0.0, 10**400), (0.0, 1.0), "is no number"),
        ((0.0, "1"), (0.0, 1.0), "'1' is no number"),
        ((0.0, 1.0), (False, True), "'False' is no number"),
        ((0.0, 1.0), (3.0, 3.0), "all values are equal"),
    ],
)
def test_what_is_no_table_is_refused(points, values, why):
    with pytest.raises(FitError, match=why):
        Table(points, values)


def test_points_that_are_too_close_are_out_of_reach():
    with pytest.raises(FitError, match=r"needle \(a table of 3\) fit: error 0.001 .* not reached"):
        Table((0.0, 1e-4, 1.0), (0.0, 1.0, 0.0)).fit("needle", 1e-3, max_depth=5)
