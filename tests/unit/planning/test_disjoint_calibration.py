"""Nothing is tested on the inputs that it was calibrated on: circuits on other random inputs, DASHformer's
split, ARION's copies."""

from __future__ import annotations

import dashformer
import numpy as np
import pytest
import tiny
from circuits import build_batch_circuit, build_circuit
from greedy import run_greedily
from random_checkpoint import WORDS, make_random_checkpoint

from bench.__main__ import main
from bench.runs import arion
from bench.runs import batch as bench_batch
from bench.runs.dashformer import split
from tacita import api
from tacita.checkpoint import Checkpoint, pad_hidden
from tacita.checkpoint.reference import reference
from tacita.errors import InputError
from tacita.layouts.columns import BatchShape
from tacita.planning.calibrate.calibrate import Calibration, calibrate
from tacita.planning.calibrate.excesses import largest_excess
from tacita.planning.calibrate.walk import Sample, walk
from tacita.planning.fitting import Accuracy, fit_circuit
from tacita.slots.plain import PlainBackend

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


@pytest.mark.skipif(not arion.available(), reason=arion.MISSING)
def test_arions_sentence_is_not_among_its_copies_and_lies_in_their_intervals() -> None:
    example = arion.load_example()
    copies = arion.perturbed(example.hidden, 64, 0.25)
    assert len(copies) == 64
    for copy in copies:
        distances = np.abs(copy[:, None] - example.hidden[None]).max(axis=-1)
        assert distances.min() > 0.05, "no row of a copy is one of the sentence"
    states = [pad_hidden(copy, TOKENS) for copy in copies]
    found: Calibration = calibrate(example.checkpoint, TOKENS, hidden_states=states)
    assert set(found.temperatures.values()) == {(1.0, 1.0)}
    sentence = pad_hidden(example.hidden, TOKENS)
    assert largest_excess(walk(example.checkpoint, [sentence], 1, rows=found.row_estimates), found)[0] < 1.0
