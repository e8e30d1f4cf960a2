"""How often texts leave the calibrated intervals: held out or by folds, its bounds, its place in a plan, many
processes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import dashformer
import numpy as np
import pytest
import tiny
from circuits import build_batch_circuit, build_circuit
from greedy import run_greedily
from random_checkpoint import WORDS, make_random_checkpoint, write_folder
from test_rows_estimate import peaked
from tiny_decoders import gpt2
from typer.testing import CliRunner

from bench.__main__ import main
from bench.models import published
from bench.runs import arion
from bench.runs import batch as bench_batch
from bench.runs.dashformer import split
from tacita import api
from tacita.checkpoint import Checkpoint, from_tensors, pad_hidden
from tacita.checkpoint.reference import reference
from tacita.cli.app import app
from tacita.errors import InputError
from tacita.layouts.columns import BatchShape
from tacita.layouts.registry import LINEAR, QUADRATIC
from tacita.planning.calibrate.calibrate import Calibration, calibrate, survey
from tacita.planning.calibrate.calibrate import CalibrationOptions as Options
from tacita.planning.calibrate.excesses import (
    FAR,
    MOST_ROOM,
    Counts,
    Tail,
    binomial_bound,
    excesses,
    folds,
    held_out,
    largest,
)
from tacita.planning.calibrate.temper import tempered
from tacita.planning.calibrate.walk import Sample, Samples, neighbours, walk
from tacita.planning.fitting import Accuracy, fit_circuit
from tacita.planning.request import PlanRequest
from tacita.planning.survey import Subject, phases_of
from tacita.plans import error
from tacita.plans.plan import parse
from tacita.plans.scheme import first_shape
from tacita.slots.plain import PlainBackend

MODEL = make_random_checkpoint()
SHAPE = first_shape("arion", 128, 16)


def sentences(count: int, seed: int = 0, words: tuple[str, ...] = WORDS) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(words, rng.integers(1, 12))) for _ in range(count)]


def test_every_fifth_of_many_is_held_out_and_all_of_few_make_the_intervals() -> None:
    assert held_out(499) == [] and held_out(500)[:2] == [4, 9] and len(held_out(501)) == 100
    assert list(folds(49)) == []
    pairs = list(folds(52))
    assert sorted(i for _, test in pairs for i in test) == list(range(52))
    assert all(sorted(made + test) == list(range(52)) for made, test in pairs)


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> int:
    """Lowers how many texts there must be for every fifth to be held out."""
    monkeypatch.setattr("tacita.planning.calibrate.excesses.MANY", 100)
    return 100


def test_held_out_texts_take_no_part_in_the_intervals(few_are_many: int) -> None:
    texts = sentences(few_are_many, words=("a",))
    rare = [" ".join(WORDS[8:])] * (few_are_many // 5)
    for place, text in zip(held_out(few_are_many), rare, strict=True):
        texts[place] = text
    found = survey(MODEL, 16, texts)
    assert found.calibration == calibrate(MODEL, 16, [text for i, text in enumerate(texts) if i % 5 != 4])
    counts = found.counts
    assert (counts.method, counts.texts, counts.outside) == ("held out", len(rare), len(rare)), (
        "texts unlike the others are seen to be outside"
    )


def test_a_text_among_its_like_is_inside_and_few_are_not_estimated() -> None:
    texts = sentences(41) * 2  # the other of two equal texts is in another fold
    assert survey(MODEL, 16, texts).counts.outside == 0
    counts = survey(MODEL, 16, texts[:20]).counts
    assert counts == Counts("not estimated")
    assert counts.population(64).per_request_bound == 1.0


def test_folds_tell_no_less_than_texts_that_nothing_was_fitted_to() -> None:
    """One of the 60 lay outside as long as row estimates were fitted to the tested ones too, at most 7.7 %,
    where 12 % of others do."""
    model = peaked(hidden=32, heads=2, ff=32, layers=2)
    texts = [tiny.inputs(model, TOKENS, TOKENS - seed % 5, seed=seed) for seed in range(360)]
    found = survey(model, TOKENS, hidden_states=texts[:60], options=Options(row_estimates=QUADRATIC))
    rows = found.calibration.row_estimates
    model = tempered(model, found.calibration.temperatures)
    others = largest(excesses(walk(model, texts[60:], 300, rows=rows), found.calibration))
    told, true = found.counts.population(128), float(np.mean(others > 1.0))
    assert len(rows) == 2 and 0.1 < true <= told.per_text < told.per_text_bound < 3.0 * true
    assert np.mean(others > FAR) <= found.counts.far / 60


def test_excess_is_one_at_the_ends_of_an_interval() -> None:
    texts = sentences(60)
    calibration = calibrate(MODEL, 16, texts, options=Options(margin=0.0))
    assert set(calibration.temperatures.values()) == {(1.0, 1.0)}
    samples = Samples.of(MODEL, 16, texts, ())
    ranges = walk(MODEL, samples.at(range(60)), 60, rows={})
    for name, found in excesses(ranges, calibration).items():
        assert found.shape == (60,)
        assert 0.95 < found.max() <= 1.0, name  # rounding alone leaves room
    narrow = replace(calibration, answer=0.5 * ranges.bound("answer"))
    assert excesses(ranges, narrow)["answer"].max() == pytest.approx(2.0)


def test_a_sum_beyond_the_bound_that_it_is_stored_by_is_outside() -> None:
    """A norm behind it takes its mean off: what is centred may lie within its bound all the same."""
    model = gpt2()
    samples = [tiny.inputs(model, 8, 8, seed=seed) for seed in range(4)]
    calibration, ranges = calibrate(model, 8, hidden_states=samples), walk(model, samples, 4, rows={})
    assert calibration.inputs and largest(excesses(ranges, calibration)).max() < 1.0
    half = replace(calibration, inputs={name: 0.5 * bound for name, bound in calibration.inputs.items()})
    assert largest(excesses(ranges, half)).max() > FAR


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (0, 2000), (1, 200), (3, 872), (50, 60)])
def test_the_bound_is_clopper_and_pearsons(hits: int, trials: int) -> None:
    share = binomial_bound(hits, trials)
    exact = sum(math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(hits + 1))
    assert exact == pytest.approx(0.05, rel=1e-6)
    if hits == 0:
        assert share == pytest.approx(1.0 - 0.05 ** (1 / trials))


def test_a_request_is_spoiled_when_one_of_its_texts_is_far_outside() -> None:
    counts = Counts("held out", 2000, 20, 2)
    one, batch = counts.population(1), counts.population(128)
    assert one.per_text == pytest.approx(0.01, rel=2.0**-7) and one.per_request == one.per_text
    assert batch.per_request == pytest.approx(1.0 - 0.999**128, rel=2.0**-6)
    assert batch.per_request < batch.per_request_bound < 1.0
    assert binomial_bound(5, 5) == 1.0


def test_the_tail_tells_what_a_count_of_none_does_not() -> None:
    drawn = np.random.default_rng(0).exponential(0.1, size=(50, 300))
    shares = [Tail.of(values).beyond(1.0) for values in drawn]
    assert math.exp(-10.0) / 2 < np.median(shares) < 2 * math.exp(-10.0)
    tail = Tail.of(drawn[0])
    assert tail.beyond(tail.at(1e-6)) == pytest.approx(1e-6) and tail.at(0.5) == tail.start
    assert Tail.of(np.ones(60)).beyond(1.0 + 1e-9) == 0.0
    none = Counts("held out", 300, 0, 0, tail=1e-4)
    assert none.population(256).per_request == pytest.approx(1.0 - 0.9999**256, rel=2.0**-6)
    assert none.population(1).per_request == 0.0, "a text alone spoils no other"


def test_batches_have_room_for_the_tails_of_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacita.planning.calibrate.excesses.MANY", 60)
    model = peaked(hidden=32, heads=2, ff=32, layers=2)
    texts = [tiny.inputs(model, TOKENS, TOKENS - seed % 5, seed=seed) for seed in range(360)]
    options = Options(row_estimates=QUADRATIC)
    alone, together = (
        survey(model, TOKENS, hidden_states=texts[:60], options=replace(options, texts=count))
        for count in (1, 64)
    )
    betas, rows = alone.calibration.temperatures, alone.calibration.row_estimates
    assert (betas, rows) == (together.calibration.temperatures, together.calibration.row_estimates)
    others = walk(tempered(model, betas), texts[60:], 300, rows=rows)
    far = [int((largest(excesses(others, each.calibration)) > FAR).sum()) for each in (alone, together)]
    assert far[0] > 10 > 3 * far[1], "fewer texts that made no interval spoil others"
    assert 0.0 < together.counts.tail < 0.5 * alone.counts.tail
    for name in ("layer0.attention", "layer1.attention"):
        before, after = (np.log(each.calibration.attention(name).means[0]) for each in (alone, together))
        assert -0.02 < np.ptp(after) - np.ptp(before) < MOST_ROOM + 0.02


def test_a_plan_for_several_texts_has_the_intervals_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacita.planning.calibrate.excesses.MANY", 60)
    found = {}
    monkeypatch.setattr("tacita.planning.calibrate.excesses.SPOILED", 1e-9)
    for count in (None, 4):
        request = PlanRequest(tokens=16, inputs=count, scheme="arion", texts=sentences(60))
        subject = Subject(MODEL, request, phases_of(lambda _: None, ["arion"]))
        options = Options(
            row_estimates=QUADRATIC,
            texts=count or 1,
            rounds=request.variants.rounds,
            inside=subject.inside(SHAPE),
        )
        found[count] = subject.survey(SHAPE)
        assert found[count] == survey(MODEL, 16, sentences(60), options=options)
    assert found[4].calibration != found[None].calibration


def test_pairs_are_tested_on_intervals_of_other_texts() -> None:
    """All pairs of a text are in one fifth of those that texts are paired to."""
    texts = [f"text {number}" for number in range(20)]
    pairs = neighbours(texts)
    fifths = [{i % 5 for i, pair in enumerate(pairs) if text in pair} for text in texts]
    assert all(len(places) == 1 for places in fifths) and len(pairs) == len(set(pairs)) == 2 * len(texts)
    assert sum(len(set(pair)) == 1 for pair in pairs) == len(texts)
    assert neighbours(pairs) == pairs
    few = [
        pair
        for text, following in zip("abc", "bca", strict=True)
        for pair in ((text, following), (text, text))
    ]
    assert neighbours("abc") == few


def test_states_behind_texts_are_tried_where_they_were_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacita.planning.calibrate.excesses.MANY", 10)
    states, texts = [tiny.inputs(MODEL, 16, 16, seed=seed) for seed in range(10)], sentences(3)
    request = PlanRequest(tokens=16, texts=texts, hidden_states=states)
    subject = Subject(MODEL, request, phases_of(lambda _: None, ["thor"]))
    inputs, count = subject.error_inputs
    tried = [next(n for n, (rows, _) in enumerate(states) if rows is one) for one, _ in inputs]
    assert [len(texts) + number for number in tried] == held_out(len(texts) + len(states))
    assert count == len(tried) == 2


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_the_number_of_processes_changes_nothing(
    activation: str, few_are_many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacita.planning.calibrate.walk.WORTH", 0.0)
    model = make_random_checkpoint(activation=activation)
    texts = sentences(few_are_many)
    seen: list[tuple[float, float]] = []
    alone = survey(model, 16, texts, options=Options(row_estimates=QUADRATIC))
    both = survey(
        model,
        16,
        texts,
        options=Options(row_estimates=QUADRATIC, processes=2, progress=lambda *now: seen.append(now)),
    )
    assert alone == both
    assert seen[-1] == (1.0, 1.0) and len(seen) > 10 and seen == sorted(seen)


def test_processes_get_tempered_weights(few_are_many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacita.planning.calibrate.walk.WORTH", 0.0)
    tensors = dict(MODEL.tensors)
    name = "encoder.layer.1.attention.self.query.weight"
    tensors[name] = tensors[name] * np.where(np.arange(16) < 8, 1.0, 60.0)[:, None]
    peaked = from_tensors(MODEL.config, tensors, MODEL.tokenizer)
    texts = sentences(few_are_many)
    alone, both = (
        survey(peaked, 16, texts, options=Options(row_estimates=LINEAR, processes=n)) for n in (1, 2)
    )
    assert alone == both and min(alone.calibration.temperatures["layer1.attention"]) < 1.0
    assert tempered(peaked, alone.calibration.temperatures) is not peaked


def test_a_plan_states_the_rates_and_the_commands_show_them(tmp_path: Path) -> None:
    folder, texts, work = write_folder(MODEL, tmp_path / "model"), tmp_path / "texts.txt", tmp_path / "work"
    texts.write_text("\n".join(sentences(60)))
    common = ["--model", str(folder), "--tokens", "16", "--preset", "insecure_toy_n10", "--texts", str(texts)]
    told = CliRunner().invoke(app, ["plan", *common, "--scheme", "arion", "--work", str(work)])
    assert told.exit_code == 0, told.output
    plan = parse((work / "plan.json").read_text(), "plan")
    assert plan.population.method == error.FOLDS and plan.population.texts == 60
    assert plan.population == survey(
        MODEL, 16, sentences(60), options=Options(row_estimates=QUADRATIC)
    ).counts.population(plan.batch)
    shown = CliRunner().invoke(app, ["plan", "show", str(work / "plan.json")]).output
    for output in (told.output, shown):
        assert "of 60 tested by folds" in output and "spoil every answer of its request" in output


def test_a_plan_for_one_text_says_nothing_of_others() -> None:
    plan = api.plan(MODEL, tokens=16, preset="insecure_toy_n10", texts=sentences(20))
    assert plan.population == error.UNKNOWN


# Nothing is tested on the inputs that it was calibrated on: circuits on other random inputs, DASHformer's
# split, ARION's copies.

TOKENS = 16
FINE = Accuracy(exp=1e-5, inverse=1e-4, rsqrt=1e-4, activation=1e-3, tanh=1e-4)


def drawn(model: Checkpoint, seeds: range) -> list[Sample]:
    return [tiny.inputs(model, TOKENS, 3 + seed % 14, seed=seed) for seed in seeds]


@pytest.mark.parametrize("packing", ["rows", "arion", "moai"])
def test_a_circuit_answers_inputs_that_it_was_not_fitted_to(packing: str) -> None:
    model = tiny.checkpoint(hidden=16, heads=2, ff=32)
    specs = fit_circuit(
        calibrate(model, TOKENS, hidden_states=drawn(model, range(100, 160))), model.config, FINE
    )
    tested, be = drawn(model, range(8)), PlainBackend(256 if packing == "rows" else 128, 30)
    if packing == "rows":
        circuit, groups = build_circuit(model, specs, 256, TOKENS), [[one] for one in tested]
    else:
        circuit, groups = build_batch_circuit(model, specs, BatchShape(128, TOKENS), packing), [tested]
    for group in groups:
        request = circuit.request.pack(group)
        live = {name: tuple(be.encrypt(v) for v in vectors) for name, vectors in request.items()}
        out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
        found = circuit.response.read([be.decrypt(ct) for ct in out["answer"]])
        for answer, (hidden, mask) in zip(found, group, strict=False):
            assert np.max(np.abs(answer.values - reference(model, hidden, mask).logits)) < 5e-3
            assert answer.sound(0.02)


def test_a_plan_answers_sentences_that_it_was_not_calibrated_on() -> None:
    rng = np.random.default_rng(0)
    texts = sorted({" ".join(rng.choice(WORDS, rng.integers(1, 10))) for _ in range(70)})
    model, tested = make_random_checkpoint(), texts[::7]
    made = [text for text in texts if text not in tested]
    plan = api.plan(model, tokens=TOKENS, preset="insecure_toy_n10", texts=made)
    for text in tested:
        answer = api.classify_locally(plan, model, text)
        distance = np.max(np.abs(np.array(answer.logits) - api.reference_logits(plan, model, text)))
        assert distance < 0.02 + 0.5 * plan.logit_step  # random weights are noisy: one decimal
        assert not answer.warnings


def test_a_batch_of_the_shipped_sentences_is_measured_on_others_than_calibrate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[bench_batch.Task] = []

    def measured(task: bench_batch.Task, *_: object) -> dict[str, object]:
        seen.append(task)
        raise InputError("enough is known", hint="")

    monkeypatch.setattr(bench_batch, "_measured", measured)
    assert main(["batch", "--inputs", "64", "--backend", "sim"]) == 2
    task = seen[0]
    assert task.calibration and len(task.texts) == 64
    assert not set(task.texts) & set(task.calibration)


def test_dashformers_sequences_calibrate_or_are_measured() -> None:
    measured, calibrating = split(list(range(1, 1001)))
    assert calibrating == list(range(257, 457))
    assert len(measured) == 800 and not set(measured) & set(calibrating)
    assert measured[:256] == list(range(1, 257))
    with pytest.raises(InputError, match="455 sequences, those from 257 to 456 calibrate"):
        split(list(range(455)))


@pytest.mark.skipif(not dashformer.available(), reason=dashformer.MISSING)
def test_dashformers_sequences_are_all_different() -> None:
    hidden, _ = dashformer.load_inputs()
    measured, calibrating = split([one.tobytes() for one in hidden])
    assert not set(measured) & set(calibrating)


@pytest.mark.skipif(not published.available(), reason=published.MISSING)
def test_arions_sentence_is_not_among_its_copies_and_lies_in_their_intervals() -> None:
    example = published.load_example()
    copies = arion.perturbed(example.hidden, 64, 0.25)
    assert len(copies) == 64
    for copy in copies:
        distances = np.abs(copy[:, None] - example.hidden[None]).max(axis=-1)
        assert distances.min() > 0.05, "no row of a copy is one of the sentence"
    states = [pad_hidden(copy, TOKENS) for copy in copies]
    found: Calibration = calibrate(example.checkpoint, TOKENS, hidden_states=states)
    assert set(found.temperatures.values()) == {(1.0, 1.0)}
    sentence = pad_hidden(example.hidden, TOKENS)
    assert (
        largest(excesses(walk(example.checkpoint, [sentence], 1, rows=found.row_estimates), found))[0] < 1.0
    )
