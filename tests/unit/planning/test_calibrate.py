"""Calibration: what is recorded, how it is widened, padding, JSON, bad input."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from bench.models import published
from tacita.approx import inverse, rsqrt
from tacita.approx.activations import gelu
from tacita.checkpoint import embed, from_tensors, pad_hidden
from tacita.checkpoint.reference import reference
from tacita.errors import InputError, PlanError
from tacita.planning.calibrate.calibrate import CalibrationOptions as Options
from tacita.planning.calibrate.calibrate import calibrate, load_texts, survey
from tacita.planning.calibrate.calibration import AttentionCalibration, Calibration, round_outward, up
from tacita.planning.calibrate.excesses import BOUNDS, INTERVALS, excesses
from tacita.planning.calibrate.temper import LIMIT, choose_temperatures, enough_rounds, tempered
from tacita.planning.calibrate.walk import walk

TEXTS = ("a fine film", "dull , dull , very dull .", "good", "never boring the plot is good")


@pytest.fixture(scope="module")
def checkpoint():
    return make_random_checkpoint()


def trace_of(checkpoint, text, tokens=16):
    return reference(checkpoint, *embed(checkpoint, text, tokens)).trace


def test_every_value_of_the_samples_is_inside(checkpoint):
    calibration = calibrate(checkpoint, 16, TEXTS)
    assert calibration.samples == 4
    assert calibration.sha256 == checkpoint.sha256
    layer = ("attention", "norm1", "feed_forward", "norm2")
    assert [*calibration.nodes] == [*(f"layer{i}.{node}" for i in range(2) for node in layer), "pooler.tanh"]
    for text in TEXTS:
        trace = trace_of(checkpoint, text)
        for name, node in calibration.nodes.items():
            inside = {key: trace[f"{name}.{key}"] for key in INTERVALS[node.tag]}
            if isinstance(node, AttentionCalibration):
                inside["sums"] = np.exp(trace[f"{name}.log_sum_exp"] - node.shift)
                assert np.exp(trace[f"{name}.scores"] - node.shift).max() < 1.0
            for key, value in inside.items():
                lo, hi = getattr(node, key)
                assert lo < value.min() <= value.max() < hi, (name, key)
            for key in (*BOUNDS[node.tag], *{"norm": ("sum",), "function": ("result",)}.get(node.tag, ())):
                assert np.abs(trace[f"{name}.{key}"]).max() < getattr(node, key), (name, key)
        assert np.abs(trace["layer0.attention.input"]).max() < calibration.entry
        assert np.abs(trace["answer"]).max() < calibration.answer


def test_mixed_bounds_the_unnormalised_context(checkpoint):
    calibration = calibrate(checkpoint, 16, TEXTS[:1], options=Options(margin=0.0))
    hidden, mask = embed(checkpoint, TEXTS[0], 5)
    trace = reference(checkpoint, hidden, mask).trace
    name = "encoder.layer.0.attention.self.value"
    value = hidden @ checkpoint.tensors[f"{name}.weight"].T + checkpoint.tensors[f"{name}.bias"]
    weights = np.exp(trace["layer0.attention.scores"] - calibration.attention("layer0.attention").shift)
    mixed = np.einsum("hij,jhd->ihd", weights, value.reshape(5, 2, 8))
    assert 0.0 <= calibration.attention("layer0.attention").mixed / np.abs(mixed).max() - 1.0 <= 2.0**-7


def test_means_are_of_the_real_keys_and_do_not_grow_with_length(checkpoint):
    calibration = calibrate(
        checkpoint, 16, hidden_states=[embed(checkpoint, TEXTS[0], 12)], options=Options(margin=0.0)
    )
    layer = calibration.attention("layer0.attention")
    scores = trace_of(checkpoint, TEXTS[0], 12)["layer0.attention.scores"][:, :, :5]
    for k, interval in enumerate(layer.means):
        means = np.exp((scores - layer.shift) / 2**k).mean(axis=-1)
        assert interval == round_outward((means.min(), means.max()))
    assert layer.sums == pytest.approx(tuple(5.0 * m for m in layer.means[0]), rel=2.0**-6)
    assert layer.mixed == pytest.approx(5.0 * layer.mixed_mean, rel=2.0**-6)


PLAIN = AttentionCalibration(1.0, (-1.0, 0.0), 0.0, (0.5, 1.0), 1.0, (), 1.0, 1.0)


def peaked_model():
    """The second head of the second layer looks at nearly one token."""
    model = make_random_checkpoint()
    tensors = dict(model.tensors)
    for name in ("query", "key"):
        key = f"encoder.layer.1.attention.self.{name}.weight"
        tensors[key] = np.where(np.arange(16)[:, None] >= 8, 3.0 * tensors[key], tensors[key])
    return from_tensors(model.config, tensors, model.tokenizer)


def test_an_attention_that_refreshes_row_sums_alone_takes_a_round_from_seven_nats_on():
    config, names = peaked_model().config, ["layer0.attention", "layer1.attention"]

    def rounds(nats, most, estimated):
        inside = frozenset(names[:1])
        return choose_temperatures(
            lambda name, t, head: (-nats * t, 0.0), config, (0, most), estimated, inside
        )

    for estimated in ((), names):
        betas, chosen = rounds(8.0, 3, estimated)
        assert chosen == dict(zip(names, (1, 0), strict=True))
        assert {beta for each in betas.values() for beta in each} == {1.0}
        assert set(rounds(6.5, 3, estimated)[1].values()) == set(rounds(8.0, 0, estimated)[1].values()) == {0}


def test_rounds_inside_a_stage_are_enough_when_noise_leaves_the_row_means():
    """MiniLM's first layer, on whole sentences: with a round its least mean is e^-19.4, and the circuit
    overflowed by noise alone."""

    def rounds(fewest, *least):
        means = tuple((math.exp(nats), 1.0) for nats in least)
        nodes = {"a": replace(PLAIN, means=means)}
        return enough_rounds({"a": fewest}, nodes, 3, {"a"}).get("a", 0)

    assert rounds(1, -39.0, -19.4, -9.7, -5.0) == 2
    assert rounds(1, -32.0, -16.0, -8.0, -4.0) == 1
    assert rounds(0, -19.4, -9.7, -5.0, -3.0) == 0, "without a round nothing is divided twice"


def test_rounds_of_softmax_come_before_tempering():
    """The fewest that narrow the means enough; what they leave too wide is tempered."""
    peaked = peaked_model()
    none, one, most = (
        survey(peaked, 16, TEXTS, options=Options(margin=0.0, rounds=(0, t))).calibration for t in (0, 1, 3)
    )
    name = "layer1.attention"
    assert not none.rounds and one.rounds == {name: 1}
    assert one.temperatures[name][1] > none.temperatures[name][1]
    assert set(most.temperatures[name]) == {1.0} and most.rounds.keys() == {name}
    count = most.rounds[name]
    widths = [math.log(hi / lo) for lo, hi in most.attention(name).means]
    assert widths[count] <= LIMIT < widths[count - 1]
    forced = calibrate(peaked, 16, TEXTS, options=Options(margin=0.0, rounds=(1, 3)))
    assert forced.rounds == {"layer0.attention": 1, name: count}


def test_a_round_relies_on_the_means_of_half_the_scores():
    """Intervals of one text hold another one's means of the first phase or not, whatever those of one."""
    peaked = peaked_model()
    found = calibrate(peaked, 16, TEXTS[:1], options=Options(margin=0.0, temper=False))
    ranges = walk(peaked, [embed(peaked, TEXTS[1], 16)], 1, rows={})
    name = "layer1.attention"
    one, two = (excesses(ranges, replace(found, rounds=rounds)) for rounds in ({}, {name: 1}))
    assert f"{name}.mixed" in one and f"{name}.mixed" not in two
    means = found.attention(name).means
    for k, seen in enumerate((one, two)):
        logs = ranges.each_log_mean(name, 0.5**k)[0] - found.attention(name).shift / 2**k
        inside = means[k][0] <= math.exp(logs[0]) and math.exp(logs[1]) <= means[k][1]
        assert (seen[f"{name}.means"][0] <= 1.0) == inside


def test_a_peaked_head_is_tempered_and_the_intervals_are_the_tempered_models():
    peaked = peaked_model()
    calibration = calibrate(peaked, 16, TEXTS, options=Options(margin=0.0))
    assert calibration.temperatures["layer0.attention"] == (1.0, 1.0)
    cold, beta = calibration.temperatures["layer1.attention"]
    assert beta < cold == 1.0
    found = calibration.attention("layer1.attention")
    lo, hi = found.means[0]
    assert math.log(hi / lo) <= LIMIT
    cool = tempered(peaked, calibration.temperatures)
    assert cool.sha256 == peaked.sha256
    scores = trace_of(cool, TEXTS[0])["layer1.attention.scores"]
    np.testing.assert_allclose(
        scores[1], beta * trace_of(peaked, TEXTS[0])["layer1.attention.scores"][1], rtol=1e-9
    )
    assert found.scores[0] <= scores.min() <= scores.max() <= found.scores[1]


def test_an_ordinary_model_is_not_tempered(checkpoint):
    calibration = calibrate(checkpoint, 16, TEXTS)
    assert calibration.temperatures == {"layer0.attention": (1.0, 1.0), "layer1.attention": (1.0, 1.0)}
    assert tempered(checkpoint, calibration.temperatures) is checkpoint


def test_margin_widens_by_the_documented_amounts(checkpoint):
    seen = [trace_of(checkpoint, text) for text in TEXTS]
    inner, variance, given = (
        np.concatenate([trace[f"layer0.{name}"].ravel() for trace in seen])
        for name in ("feed_forward.argument", "norm1.variance", "attention.input")
    )
    wide = calibrate(checkpoint, 16, TEXTS, options=Options(margin=0.2))
    pad = 0.2 * np.ptp(inner)
    assert wide.function("layer0.feed_forward").argument == round_outward(
        (inner.min() - pad, inner.max() + pad)
    )
    factor = math.exp(0.2 * max(2.0, math.log(variance.max() / variance.min())))
    widened = round_outward((variance.min() / factor, variance.max() * factor))
    assert wide.norm("layer0.norm1").variance == pytest.approx(widened)
    attention = wide.attention("layer0.attention")
    assert wide.entry == attention.input == up(1.4 * np.abs(given).max())
    assert attention.shift == attention.scores[1]


def test_padded_rows_widen_nothing(checkpoint):
    short = calibrate(checkpoint, 16, TEXTS)
    padded = calibrate(checkpoint, 16, hidden_states=[embed(checkpoint, text, 16) for text in TEXTS])
    assert padded.rows == 64 > short.rows
    assert short.nodes.keys() == padded.nodes.keys()
    for node, found in short.nodes.items():
        for name, value in vars(found).items():
            other = getattr(padded.nodes[node], name)
            if value is None:  # of a gate that is not there
                assert other is None
                continue
            np.testing.assert_allclose(other, value, rtol=1e-9, err_msg=f"{node}.{name}")


def test_other_padding_in_given_states_is_recorded(checkpoint):
    hidden, mask = embed(checkpoint, "fine", 8)
    loud = np.where(mask[:, None] > 0, hidden, 9.0)
    assert calibrate(checkpoint, 8, hidden_states=[(loud, mask)]).entry == up(1.2 * 9.0)


def test_json_round_trip_is_exact_and_checked(checkpoint):
    calibration = calibrate(checkpoint, 16, TEXTS)
    data = json.loads(json.dumps(calibration.to_dict()))
    assert Calibration.from_dict(data) == calibration
    with pytest.raises(PlanError, match="stored fields"):
        Calibration.from_dict({k: v for k, v in data.items() if k != "margin"})
    with pytest.raises(PlanError, match="stored fields"):
        Calibration.from_dict(data | {"nodes": {"layer0.norm1": {"kind": "norm", "sum": 1.0}}})
    with pytest.raises(PlanError, match="answer: expected"):
        Calibration.from_dict(data | {"answer": "x"})
    tanh = data["nodes"]["pooler.tanh"]
    for field, value, message in (
        ("argument", [0.0, float("nan")], "argument is nan"),
        ("argument", [0.0, 1.0, 2.0], "argument: expected 2 items"),
        ("result", True, "result: expected"),
        ("result", 10**400, "too large"),
        ("kind", "norm", "stored fields"),
        ("kind", "layer", "kind 'layer', expected one of attention, norm, function"),
        ("kind", [], "kind"),
        ("extra", 1.0, "unknown field 'extra'"),
    ):
        with pytest.raises(PlanError, match=message):
            Calibration.from_dict(data | {"nodes": {"pooler.tanh": tanh | {field: value}}})


def test_a_node_is_found_by_its_name_and_kind(checkpoint):
    calibration = calibrate(checkpoint, 16, TEXTS)
    assert calibration.norm("layer1.norm2") is calibration.nodes["layer1.norm2"]
    for find, name, message in (
        (calibration.norm, "layer7.norm2", "'layer7.norm2' is missing"),
        (calibration.norm, "pooler.tanh", "'pooler.tanh' is FunctionCalibration, expected NormCalibration"),
        (calibration.attention, "layer0.norm1", "expected AttentionCalibration"),
        (calibration.function, "mean", "'mean' is missing"),
    ):
        with pytest.raises(PlanError, match=message):
            find(name)


def test_temperatures_of_no_attention_are_refused(checkpoint):
    with pytest.raises(PlanError, match=r"'layer9\.attention' is missing"):
        tempered(checkpoint, {"layer9.attention": (0.5, 1.0)})


def test_mean_pooling_has_no_interval_of_a_pooler():
    model = make_random_checkpoint(pooling="mean", activation="relu")
    calibration = calibrate(model, 16, TEXTS)
    assert "pooler.tanh" not in calibration.nodes and calibration.function("layer0.feed_forward").density
    assert Calibration.from_dict(calibration.to_dict()) == calibration


def test_shipped_texts_and_cutting(checkpoint):
    texts = load_texts()
    assert len(texts) >= 190
    assert len(set(texts)) == len(texts)
    seen = []
    calibration = calibrate(
        checkpoint, 16, texts[:20] + texts[-2:], options=Options(progress=lambda *pair: seen.append(pair))
    )
    assert len(seen) == 6 and seen == sorted(seen)  # one for four texts
    assert calibration.rows <= 16 * 22


def test_user_texts(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("# note\nfirst\n\n second \n", encoding="utf-8")
    assert load_texts(path) == ("first", "second")
    path.write_text("# nothing\n")
    with pytest.raises(InputError, match="holds no text"):
        load_texts(path)
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InputError, match="not UTF-8"):
        load_texts(path)
    with pytest.raises(InputError, match="absent"):
        load_texts(tmp_path / "none.txt")


def test_bad_arguments(checkpoint):
    for margin in (-0.1, 1.5, float("nan")):
        with pytest.raises(PlanError, match="margin"):
            calibrate(checkpoint, 16, TEXTS, options=Options(margin=margin))
    with pytest.raises(PlanError, match="no sample"):
        calibrate(checkpoint, 16, [])
    with pytest.raises(InputError, match="empty"):
        calibrate(checkpoint, 16, ["fine", " "])
    with pytest.raises(InputError, match="do not fit hidden size"):
        calibrate(checkpoint, 16, hidden_states=[(np.zeros((16, 3)), np.ones(16))])


@pytest.mark.skipif(not published.available(), reason=published.MISSING)
def test_a_real_models_intervals_are_fitted_in_few_levels():
    example = published.load_example()
    calibration = calibrate(example.checkpoint, 16, hidden_states=[pad_hidden(example.hidden, 16)])
    for i in range(example.checkpoint.config.layers):
        assert gelu.fit(calibration.function(f"layer{i}.feed_forward").argument, 1e-3).depth(1.0) <= 7
        assert rsqrt.fit(calibration.norm(f"layer{i}.norm1").variance, 1e-4).depth(1.0) <= 6
        assert inverse.fit(calibration.attention(f"layer{i}.attention").sums, 1e-3).depth(1.0) <= 10
