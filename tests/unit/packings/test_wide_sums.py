"""Softmax whose row means span fourteen nats: neither the noise of a level nor that of a bootstrap makes
garbage of the rows with the smallest means."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
from greedy import run_greedily

from tacita.approx import exp, inverse, rsqrt
from tacita.approx.inverse import goldschmidt_spec
from tacita.checkpoint.reference import reference
from tacita.layouts.multidiagonal import Features
from tacita.layouts.registry import Shape
from tacita.layouts.rows import FeatureLayout, RowsShape
from tacita.packings.encoding import Argument
from tacita.packings.lowering import build
from tacita.packings.multidiagonal import linear as diagonal_linear
from tacita.packings.rows import linear as rows_linear
from tacita.packings.rows.attention import MIXING
from tacita.packings.rows.division import REFRESHED, Early
from tacita.packings.specs import AttentionSpecs
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.fitting import Accuracy, fit_circuit
from tacita.slots.noise import NoiseModel
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

SLOTS, TOKENS = 32768, 16
SCORES, SHIFT, LEAST = (-103.5, 12.25), 12.25, 8e-9  # of the third layer of a classifier of twelve
MEANS = (8e-9, 0.0123)
rng = np.random.default_rng


def noisy():
    """A product leaves 2^-30, which the fits assume (`exp.FLOOR`)."""
    return SimBackend(SLOTS, inject=True, noise=NoiseModel(SLOTS, scale_bits=44.0))


def noise_of_mean(spec, scores):
    """Standard deviation, over rows, of the mean of 32 exponentials; half of the slots are one row."""
    be = noisy()
    found = be.decrypt(spec.evaluate(be, be.encrypt(scores * spec.free_scale()), spec.free_scale()))
    error = found - spec.numpy(scores)
    return float(error.reshape(-1, 32).mean(axis=1).std())


def test_exponentials_are_no_noisier_than_the_smallest_row_mean():
    scores = np.full(SLOTS, np.log(LEAST) + SHIFT)
    error = 5e-4 * LEAST
    bare, quiet = (exp.fit(SCORES, error, shift=SHIFT, least=least) for least in (None, LEAST))
    assert bare.squarings == 0 and noise_of_mean(bare, scores) > LEAST, (
        "the mean of such a row may be negative"
    )
    assert quiet.squarings > 0 and noise_of_mean(quiet, scores) < 0.05 * LEAST
    assert quiet.depth(quiet.free_scale()) <= bare.depth(bare.free_scale()) + 1


@pytest.mark.parametrize("interval", [(-16.25, 6.0), (-21.0, 8.3)])
def test_where_means_are_far_above_the_noise_nothing_changes(interval):
    plain = exp.fit(interval, 5e-4 * 1e-5, shift=interval[1])
    assert exp.fit(interval, 5e-4 * 1e-5, shift=interval[1], least=1e-5) == plain


@pytest.mark.parametrize("early", [1, 2, 3, 5])
def test_a_division_in_two_parts_is_the_whole_one(early):
    spec, be = goldschmidt_spec(MEANS, MEANS, 12), PlainBackend(64, 20)
    x = np.geomspace(*MEANS, 64)
    y = x * np.linspace(-1.0, 1.0, 64)
    scale = spec.free_scale()
    stored, numerator = be.encrypt(x * scale), be.encrypt(y * scale)
    begun = [np.real(be.decrypt(ct)) for ct in spec.begin(be, [numerator, stored], stored, early, scale)]
    top, left = (values * spec.begin_factor(early, scale) for values in begun)
    after = spec.after(early)
    assert len(after.relaxation) == 12 - early
    assert left.min() == pytest.approx(after.domain[0]) and left.max() <= 1.0 + 1e-9
    assert after.domain[0] > 3.5**early * spec.domain[0] / spec.domain[1]
    assert np.allclose(top * after.numpy(left), y * spec.numpy(x), rtol=1e-6, atol=1e-9)


def quotients(early, below=0.0):
    """Error of y / x for x over all of MEANS and so many nats below, bootstrapped after so many iterations. y
    in [-x, x]."""
    spec, be = inverse.fit(MEANS, 1e-2, max_depth=12), noisy()
    x = np.geomspace(MEANS[0] * np.exp(-below), MEANS[1], SLOTS)
    ratio = rng(1).uniform(-1.0, 1.0, SLOTS)
    scale, after = spec.free_scale(), spec.after(early) if early else spec
    factor = spec.begin_factor(early, scale) if early else 1.0
    pair = [be.encrypt(x * scale * factor), be.encrypt(x * ratio * scale * factor)]
    if early:
        below = be.encrypt(x * scale)
        pair = spec.begin(be, pair, below, early, scale)
    sums, top = be.bootstrap(pair, ("real", "real"))
    with np.errstate(all="ignore"):
        (found,) = after.divide(be, [top], sums, after.free_scale())
        scaled = be.decrypt(found) / after.divide_factor(after.free_scale())
        return np.abs(scaled * (1.0 if early else spec.domain[1]) - ratio)


def test_a_bootstrap_after_a_few_iterations_leaves_the_smallest_rows_right():
    garbage, mended = quotients(0), quotients(3)
    assert not np.all(garbage < 2.0), "some quotients are larger than any can be"
    assert mended.max() < 0.1 and np.sqrt(np.mean(mended**2)) < 0.01


@pytest.mark.parametrize(("below", "error"), [(0.35, 0.15), (0.7, 0.3), (2.0, 0.8)])
def test_a_row_below_the_interval_loses_a_part_of_its_context_and_no_more(below, error):
    assert quotients(3, below).max() < error < quotients(0, below).max()


def specs_of(means, scores=(-40.0, 8.0)):
    fitted = exp.fit(scores, 5e-4 * means[0], shift=scores[1], least=means[0])
    return AttentionSpecs(fitted, inverse.fit(means, 1e-2), 0.01, 2.0)


def test_iterations_come_early_only_where_a_bootstrap_would_be_noisy():
    wide, narrow = specs_of(MEANS), specs_of((1e-4, 0.0123))
    early = Early.of(wide, MIXING)
    assert early is not None and early.squarings == 0 and Early.of(narrow, MIXING) is None
    rest = early.specs(wide)
    assert 0.01 * rest.inverse.domain[0] >= REFRESHED, "noise of the smallest row mean"
    assert rest.context == wide.attended and len(rest.inverse.relaxation) == 12 - early.steps


def deeper(spec):
    """exp squared twice, of a series so deep that iterations fit only beside the squarings."""
    found = exp.power_spec(spec.interval, spec.shift, 31, 2)
    return replace(found, coefficients=(*found.coefficients, *(200 * (0.0,))))


def test_roots_are_bootstrapped_where_whole_exponentials_leave_no_room():
    specs = specs_of(MEANS)
    specs = replace(specs, exp=deeper(specs.exp))
    early = Early.of(specs, MIXING)
    assert early is not None and early.squarings == specs.exp.squarings > 0
    assert 0.002 * early.specs(specs).inverse.domain[0] >= REFRESHED
    assert early.root(specs.exp).squarings == 0


@pytest.mark.parametrize("deep", [False, True])
def test_lifted_means_are_above_the_noise_of_products(deep):
    """A product leaves 2^-30 in every slot: a tenth of the smallest mean, unless exponentials are lifted."""
    specs = specs_of(MEANS)
    specs = replace(specs, exp=deeper(specs.exp)) if deep else specs
    early, be, x = Early.of(specs, MIXING), noisy(), np.geomspace(*MEANS, SLOTS)
    assert early is not None and early.lift * MEANS[1] <= 1.0 + 1e-9
    stored = np.sqrt(np.sqrt(x)) if deep else x * early.lift
    (exps,) = early.squared(be, (be.encrypt(stored),))
    mixed = be.mul(exps, be.encrypt(np.ones(SLOTS)))  # as with a mask
    (means,) = early.begin(be, [be.mul_const(mixed, early.sums)], be.mul_const(mixed, early.scale))
    exact = x / early.whole.domain[1]
    for k in early.whole.relaxation[: early.steps]:
        exact = k * exact * (2.0 - k * exact)
    assert np.sqrt(np.mean((be.decrypt(means) / exact - 1.0) ** 2)) < 0.01


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(("slots", "heads"), [(512, 2), (1024, 3), (256, 3)])
def test_a_circuit_with_early_iterations_equals_the_reference(slots, heads, deep, pooling):
    """256 slots: two ciphertexts of heads, context and sums apart. cls: an attention of one query last."""
    model = tiny.checkpoint(hidden=8 * heads, heads=heads, ff=32, layers=2, pooling=pooling, classes=3)
    samples = [tiny.inputs(model, TOKENS, TOKENS - n, seed=n) for n in range(6)]
    calibration = calibrate(model, TOKENS, hidden_states=samples)
    specs = fit_circuit(calibration, model.config, Accuracy(rsqrt=1e-4, activation=1e-3))
    nodes = dict(specs.nodes)
    for name in calibration.row_estimates.keys() | {"layer0.attention", "layer1.attention"}:
        high = calibration.attention(name).means[0][1]
        nodes[name] = replace(nodes[name], inverse=inverse.fit((5e-6 * high, high), 1e-2))
        nodes[name] = replace(nodes[name], exp=deeper(nodes[name].exp) if deep else nodes[name].exp)
    circuit = build(model, replace(specs, nodes=nodes), Shape("rows", "hoisted", slots, TOKENS))
    names = [stage.name for stage in circuit.stages]
    for name in ("layer0.attention", "layer1.attention"):
        assert f"{name}.mix" in names and (f"{name}.exp" in names) == deep
    for backend in (PlainBackend(slots, 30), SimBackend(slots, 30, values=True)):
        for hidden, mask in samples[:2]:
            request = circuit.request.pack([(hidden, mask)])
            live = {key: tuple(backend.encrypt(v) for v in vectors) for key, vectors in request.items()}
            out, _ = run_greedily(backend, circuit.stages, live, fixed=circuit.fixed)
            (answer,) = circuit.response.read([backend.decrypt(ct) for ct in out["answer"]])
            assert np.max(np.abs(answer.values - reference(model, hidden, mask).logits)) < 2e-2


@pytest.mark.parametrize("packing", ["rows", "multidiagonal"])
def test_a_token_of_a_thousandth_of_the_largest_variance_keeps_its_own(packing):
    """The variances are those of a cross-encoder's first layer, the noise that of a ring that bootstraps."""
    tokens, size, entry = 32, 384, 268.0
    if packing == "rows":
        layout, norm = FeatureLayout.dense(RowsShape(SLOTS, tokens), size, copied=False), rows_linear.Norm
    else:
        layout, norm = Features.hidden(SLOTS, tokens, 12, 32), diagonal_linear.Norm
    spec = rsqrt.fit((0.21, 234.0), 1e-3)
    x = rng(3).normal(size=(tokens, size))
    x *= np.where(np.arange(tokens) == 1, 15.0, 0.55)[:, None]
    made = norm(spec, 1e-12, size, entry, layout, np.ones(size), np.zeros(size), 1.0)
    be = SimBackend(SLOTS, inject=True, noise=NoiseModel(SLOTS, scale_bits=38.0))
    stored = be.decrypt(made.variance(be, tuple(be.encrypt(v) for v in layout.pack(x / entry))))
    form, wanted = Argument.of(spec), (x**2).mean(axis=1)
    places = layout.pack(np.tile(wanted[:, None], size))[0]
    found = (np.real(stored) / form.scale + form.centre)[places > 0.0]
    assert np.abs(found / places[places > 0.0] - 1.0).max() < 1e-3
