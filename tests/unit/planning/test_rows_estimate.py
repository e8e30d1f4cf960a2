"""Row estimates: they narrow the row means, change no softmax, and batch circuits take them from their
scores."""

from dataclasses import replace

import dashformer
import numpy as np
import pytest
import tiny
from circuits import build_batch_circuit, build_circuit
from greedy import run_greedily

from tacita.approx.softmax import RowEstimate
from tacita.checkpoint import from_tensors
from tacita.checkpoint.reference import reference
from tacita.errors import PlanError
from tacita.layouts.columns import BatchShape
from tacita.layouts.registry import LINEAR, NONE, QUADRATIC, Shape
from tacita.packings.lowering import build
from tacita.packings.specs import ATTENTION, CircuitSpecs
from tacita.planning.calibrate import row_estimates
from tacita.planning.calibrate.calibrate import Calibration, calibrate
from tacita.planning.calibrate.calibrate import CalibrationOptions as Options
from tacita.planning.calibrate.excesses import excesses
from tacita.planning.calibrate.intervals import Intervals
from tacita.planning.calibrate.row_estimates import RowSamples, estimator
from tacita.planning.calibrate.temper import tempered
from tacita.planning.calibrate.walk import mark, row_samples, walk
from tacita.planning.fitting import Accuracy, fit_circuit
from tacita.plans.json_fields import from_json, to_json
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

TOKENS = 16
FINE = Accuracy(exp=1e-5, inverse=1e-4, rsqrt=1e-4, activation=1e-3, tanh=1e-4)
# Row means go down to 2e-9 here: a hundred thousandth of that is what double arithmetic leaves of exp.
ROUGHER = replace(FINE, exp=1e-4)


def peaked(**sizes):
    """A model with queries so large that the row means span more than WORTH in every layer."""
    model = tiny.checkpoint(**sizes)
    tensors = dict(model.tensors)
    for i in range(model.config.layers):
        name = f"encoder.layer.{i}.attention.self."
        tensors[f"{name}query.weight"] = 1.5 * tensors[f"{name}query.weight"]
        tensors[f"{name}query.bias"] = tensors[f"{name}query.bias"] + 2.0
    return from_tensors(model.config, tensors)


def samples(model, count=120):
    return [tiny.inputs(model, TOKENS, TOKENS - n % 5, seed=n) for n in range(count)]


def span(calibration: Calibration):
    low, high = calibration.attention("layer0.attention").means[0]
    return float(np.log(high / low))


SHAPES = {
    "mean": (128, 1, {"hidden": 16, "heads": 2, "ff": 32, "pooling": "mean", "classes": 3, "layers": 2}),
    "first token": (64, 1, {"hidden": 16, "heads": 2, "ff": 32, "layers": 2}),
    "two lanes": (128, 2, {"hidden": 16, "heads": 4, "ff": 30, "pooling": "mean", "classes": 5}),
}


@pytest.mark.parametrize(
    ("name", "scheme"), [("mean", "arion"), ("first token", "moai"), ("two lanes", "arion"), ("mean", "moai")]
)
def test_circuits_with_estimates_equal_the_reference(name, scheme):
    slots, lanes, sizes = SHAPES[name]
    model, shape = peaked(**sizes), BatchShape(slots, TOKENS, lanes)
    inputs = samples(model)
    kinds = NONE, QUADRATIC
    before, after = (
        calibrate(model, TOKENS, hidden_states=inputs, options=Options(row_estimates=kind)) for kind in kinds
    )
    assert "layer0.attention" in after.row_estimates and not before.row_estimates
    assert all(
        np.sum(before.temperatures[node]) <= np.sum(warm) for node, warm in after.temperatures.items()
    ), "no more tempering where estimates narrow the means"
    model = tempered(model, after.temperatures)
    specs = fit_circuit(after, model.config, FINE)
    assert CircuitSpecs.from_json(specs.to_dict()) == specs
    circuit, be = build_batch_circuit(model, specs, shape, scheme), PlainBackend(slots, 30)
    request = circuit.request.pack(inputs[: shape.sequences])
    live = {key: tuple(be.encrypt(v) for v in vectors) for key, vectors in request.items()}
    out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
    answers = circuit.response.read([be.decrypt(ct) for ct in out["answer"]])
    wanted = [reference(model, hidden, mask).logits for hidden, mask in inputs[: shape.sequences]]
    assert max(np.max(np.abs(a.values - w)) for a, w in zip(answers, wanted, strict=False)) < 2e-3
    with pytest.raises(PlanError, match="row estimates"):
        build_circuit(model, specs, 256, TOKENS)


ONE_TEXT = {
    "rows, three heads of five": ("rows", 512, {"hidden": 15, "heads": 3, "ff": 20, "layers": 2}),
    "rows, six heads in two windows": ("rows", 256, {"hidden": 24, "heads": 6, "ff": 30, "layers": 2}),
    "rows, a mean": ("rows", 256, {"hidden": 16, "heads": 2, "ff": 32, "pooling": "mean", "layers": 1}),
    "multidiagonal": ("multidiagonal", 256, {"hidden": 15, "heads": 3, "ff": 20, "layers": 2}),
}


@pytest.mark.parametrize("name", ONE_TEXT)
def test_one_text_takes_linear_estimates_from_its_scores(name):
    packing, slots, sizes = ONE_TEXT[name]
    model = peaked(**sizes)
    inputs = samples(model)
    before, after = (
        calibrate(model, TOKENS, hidden_states=inputs, options=Options(row_estimates=k))
        for k in (NONE, LINEAR)
    )
    assert after.row_estimates and all(rows.is_linear for rows in after.row_estimates.values())
    cooled = [sum(1.0 - np.array(betas)) for betas in before.temperatures.values()]
    left = [sum(1.0 - np.array(betas)) for betas in after.temperatures.values()]
    assert all(now <= then for now, then in zip(left, cooled, strict=True))
    assert sum(left) < sum(cooled) or span(after) < span(before), "less tempering, or narrower means"
    model = tempered(model, after.temperatures)
    specs = fit_circuit(after, model.config, ROUGHER)
    assert CircuitSpecs.from_json(specs.to_dict()) == specs
    circuit = build(model, specs, Shape(packing, "hoisted", slots, TOKENS))
    be = SimBackend(slots, 30, values=True)
    for sample in inputs[:3]:
        live = {
            key: tuple(be.encrypt(v) for v in vectors)
            for key, vectors in circuit.request.pack([sample]).items()
        }
        out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
        (answer,) = circuit.response.read([be.decrypt(ct) for ct in out["answer"]])
        assert np.max(np.abs(answer.values - reference(model, *sample).logits)) < 5e-3


def test_softmax_is_the_same_whatever_a_row_loses():
    rng = np.random.default_rng(4)
    model = peaked(hidden=16, heads=2, ff=32)
    rows = RowEstimate(*(tuple(map(tuple, rng.normal(size=(2, 8)))) for _ in range(2)), (3.0, -40.0))
    hidden, mask = samples(model, 1)[0]
    trace = reference(model, hidden, mask).trace
    taken = estimator(model, {"layer0.attention": rows})("layer0.attention", trace["layer0.attention.input"])
    scores = trace["layer0.attention.scores"]
    assert np.ptp(taken) > 40.0
    before, after = (np.exp(each) * mask for each in (scores, scores - taken[..., None]))
    weights = [powers / powers.sum(axis=-1, keepdims=True) for powers in (before, after)]
    assert np.allclose(*weights, atol=1e-12)


def test_an_estimate_is_stored_and_used_in_the_models_units():
    rng = np.random.default_rng(3)
    b, v = (tuple(tuple(map(float, row)) for row in rng.normal(size=(2, 3))) for _ in range(2))
    rows = RowEstimate(b, v, (0.5, -1.0))
    assert from_json(RowEstimate, to_json(rows)) == rows
    queries, keys, bias = rng.normal(size=(4, 2, 3)), rng.normal(size=(5, 2, 3)), rng.normal(size=6)
    plain = np.einsum("ihd,jhd->hij", queries, keys + bias.reshape(2, 3))
    less = np.einsum("ihd,jhd->hij", queries, keys + rows.key_bias(bias).reshape(2, 3))
    squares = np.einsum("thd,hd->ht", queries, np.array(v)) ** 2 + np.array([[0.5], [-1.0]])
    assert np.allclose(less - squares[..., None], plain - rows.of(queries)[..., None])


@pytest.mark.parametrize("kind", [LINEAR, QUADRATIC])
def test_the_fit_narrows_the_row_means_of_every_head_to_an_interval_about_zero(kind):
    model = peaked(hidden=16, heads=2, ff=32)
    seen, found = RowSamples(model), []
    for hidden, mask in samples(model):
        seen.start(mask)
        found.append((reference(model, hidden, mask, seen.see).trace, mask))
    rows = seen.fit(kind)
    logs = [t["layer0.attention.log_sum_exp"][:, mask > 0] - np.log(mask.sum()) for t, mask in found]
    estimate = estimator(model, rows)
    taken = [estimate("layer0.attention", t["layer0.attention.input"])[:, mask > 0] for t, mask in found]
    before, left = np.concatenate(logs, axis=1), np.concatenate(logs, axis=1) - np.concatenate(taken, axis=1)
    assert np.ptp(left) < np.ptp(before) - 2.0
    constants = np.abs(rows["layer0.attention"].constant)  # of 8 bits
    assert np.all(np.abs(left.max(axis=1) + left.min(axis=1)) <= 2.0 * (2.0**-8 * constants + 1e-6))


def test_ranges_of_the_walk_that_fits_estimates_are_those_of_another_walk_with_them():
    model = peaked(hidden=16, heads=2, ff=32, layers=2)
    inputs, some = samples(model), {"layer1.feed_forward": 100}
    collected, ranges, answers = row_samples(model, inputs, len(inputs), kept=some)
    for hidden, mask in inputs[:3]:  # with padding or without
        wanted, real = reference(model, hidden, mask).trace["answer"], int(mask.sum())
        assert np.allclose(answers[mark((hidden[:real], mask[:real]))], wanted)
    rows = collected.fit(QUADRATIC)
    assert rows and ranges is not None
    for estimates in ({}, rows):
        once, again = (
            collected.completed(ranges, estimates),
            walk(model, inputs, len(inputs), rows=estimates, kept=some),
        )
        assert once.names.keys() == again.names.keys() and once.rows == again.rows
        for name in again.names:
            np.testing.assert_allclose(once.each(name), again.each(name), rtol=1e-6, atol=1e-4)
        assert all(
            np.array_equal(a[n], b[n]) for a, b in zip(once.inputs, again.inputs, strict=True) for n in b
        )
    assert row_samples(model, inputs[:2], 2)[1] is None


def test_few_rows_or_narrow_ones_get_no_estimate():
    model = peaked(hidden=16, heads=2, ff=32)
    seen = RowSamples(model)
    hidden, mask = tiny.inputs(model, TOKENS, TOKENS)
    seen.start(mask)
    reference(model, hidden, mask, seen.see)
    assert seen.fit(QUADRATIC) == {}, "too few rows"
    mild = tiny.checkpoint(hidden=16, heads=2, ff=32)
    assert not calibrate(
        mild, TOKENS, hidden_states=samples(mild), options=Options(row_estimates=QUADRATIC)
    ).row_estimates


def test_rows_that_fitted_nothing_lie_inside_the_interval_of_the_inverse():
    """Thirty samples fit an estimate closely; of three hundred others a few leave what they showed."""
    model = peaked(hidden=16, heads=2, ff=32)
    found = calibrate(
        model, TOKENS, hidden_states=samples(model), options=Options(row_estimates=QUADRATIC, temper=False)
    )
    others = [tiny.inputs(model, TOKENS, TOKENS - n % 5, seed=1000 + n) for n in range(300)]
    left = excesses(walk(model, others, len(others), rows=found.row_estimates), found)
    assert found.row_estimates
    for name in found.row_estimates:
        assert np.mean(left[f"{name}.means"] > 1.0) <= 0.02


def test_room_above_row_means_is_room_for_scores_too():
    """The largest score of a row rises with its mean: after a linear estimate as after a quadratic one."""
    model, name = peaked(hidden=16, heads=2, ff=32), "layer0.attention"
    nothing, something = ((0.0,) * 8,) * 2, ((0.1,) * 8,) * 2
    for quadratic in (nothing, something):
        row = RowEstimate(nothing, quadratic, (0.0, 0.0))
        ranges = walk(model, samples(model, 4), 4, rows={name: row})
        without, roomy = (
            Intervals(ranges, 0.1, {name: (0.0, nats)}).of(name, ATTENTION, row).scores
            for nats in (0.0, 50.0)
        )
        assert roomy[1] >= ranges.interval(f"{name}.scores")[1] + 50.0 > without[1] and roomy[0] == without[0]


def test_what_is_fitted_without_a_fold_has_not_seen_it():
    """Neither the estimate nor how far others lie beyond it; not by what another fit has kept either."""
    model = peaked(hidden=16, heads=2, ff=32)
    inputs = samples(model)
    changed = [tiny.inputs(model, TOKENS, 9, seed=999 - n) if n % 5 == 2 else s for n, s in enumerate(inputs)]
    one, other = (row_samples(model, each, len(each))[0] for each in (inputs, changed))
    whole = one.fit(QUADRATIC), other.fit(QUADRATIC)
    assert whole[0]["layer0.attention"] != whole[1]["layer0.attention"]
    one, other = one.without(2), other.without(2)
    assert one.fit(QUADRATIC) == other.fit(QUADRATIC) != whole[0]
    assert one.beyond == other.beyond != {"layer0.attention": (0.0, 0.0)}


def test_fits_of_folds_and_of_a_plan_differ_by_the_width_of_their_floats(monkeypatch):
    """A plan's own are in doubles; those that test it take half the time, and narrow rows as far."""
    types, fit = [], row_estimates._estimate
    monkeypatch.setattr(
        row_estimates, "_estimate", lambda q, logs, *a, **k: types.append(logs.dtype) or fit(q, logs, *a, **k)
    )
    model = peaked(hidden=16, heads=2, ff=32)
    seen, _, _ = row_samples(model, inputs := samples(model, 60), len(inputs))
    rows, others = seen.by_attention["layer0.attention"], seen.without(0)
    assert seen.fit(QUADRATIC) and others.fit(QUADRATIC)
    assert types[0] == np.float64 and {*types[1:]} == {np.dtype(np.float32)}
    queries, logs = rows.queries, np.concatenate(rows.logs, axis=1)
    spread = rows._spread(len(queries))
    left = [logs - fit(queries, logs.astype(t), spread).of(queries) for t in (np.float64, np.float32)]
    assert np.ptp(left[1]) == pytest.approx(np.ptp(left[0]), rel=0.02)


def test_reweighting_solves_damped_least_squares_of_weighted_rows():
    rng = np.random.default_rng(6)
    unknowns = np.column_stack([rng.normal(size=(300, 4)) * (1.0, 30.0, 0.0, 0.1), np.ones(300)])
    values, weights = rng.standard_t(3, size=300), np.ones(300)
    damping = np.diag([*row_estimates.RIDGE * (unknowns[:, :-1] ** 2).sum(axis=0), 0.0])
    for _ in range(row_estimates.ROUNDS):
        left = unknowns.T @ (unknowns * weights[:, None]) + damping
        wanted = np.linalg.pinv(left) @ (unknowns.T @ (values * weights))
        residuals = np.abs(values - unknowns @ wanted)
        weights = weights * (residuals + 1e-3 * residuals.max())
        weights = weights / weights.mean() + row_estimates.FLOOR
    solution = row_estimates._reweighted(unknowns, values)
    assert np.allclose(solution, wanted, rtol=1e-8, atol=1e-12) and solution[2] == 0.0


@pytest.mark.skipif(not dashformer.available(), reason=dashformer.MISSING)
def test_dashformers_row_means_are_narrowed_from_eleven_nats_to_four():
    hidden, _ = dashformer.load_inputs()
    inputs = [(h, np.ones(50)) for h in hidden[:100]]
    model = dashformer.load_model()
    before, after = (
        calibrate(model, 50, hidden_states=inputs, options=Options(margin=0.0, row_estimates=kind))
        for kind in (NONE, QUADRATIC)
    )
    assert span(before) > 10.0 and span(after) < 3.5
    assert Calibration.from_dict(after.to_dict()) == after
    specs = fit_circuit(after, model.config).attention("layer0.attention")
    assert specs.rows is not None
    assert specs.inverse.depth(specs.inverse.free_scale()) <= 5


def test_where_one_row_is_asked_for_each_head_takes_a_constant():
    """One row a sample is too few to fit a query's part to; the constants bring heads together that lie
    apart."""
    model = tiny.checkpoint(hidden=16, heads=2, layers=1)
    name, apart = "layer0.attention", np.array([0.0, 20.0])
    seen, rng = RowSamples(model), np.random.default_rng(0)
    for n in range(6):
        _, mask = tiny.inputs(model, TOKENS, TOKENS - n, seed=n)
        scores = rng.normal(size=(2, 1, TOKENS)) + apart[:, None, None]
        seen.start(mask)
        seen.see(f"{name}.queries", rng.normal(size=(2, 1, 8)))
        seen.see(f"{name}.keys", rng.normal(size=(2, TOKENS, 8)))
        seen.see(f"{name}.scores", scores)
        seen.see(f"{name}.log_sum_exp", np.log((np.exp(scores) * mask).sum(axis=2)))
    rows = seen.fit(LINEAR)
    assert not np.any(rows[name].linear) and not np.any(rows[name].quadratic)
    assert np.allclose(np.diff(rows[name].constant), 20.0, atol=1.0)
    before, after = (seen.log_mean(kept)(name, 1.0, None) for kept in ({}, rows))
    assert before[1] - before[0] > 19.0 and after[1] - after[0] < 2.0
