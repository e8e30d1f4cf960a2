"""Whole circuits on plain and sim against the float reference: shapes, activations, poolings, padding,
checks."""

import json

import numpy as np
import pytest
import tiny
from circuits import build_circuit
from greedy import run_greedily

from tacita.errors import PlanError
from tacita.packings.specs import CircuitSpecs
from tacita.slots.noise import NoiseModel
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend


def run(model, slots, tokens, real, *, be=None, error=1e-5, spoil=1.0):
    """(circuit, reference, answer, layer errors, largest boundary value)"""
    hidden, mask = tiny.inputs(model, tokens, real)
    reference = tiny.run_reference(model, hidden, mask)
    circuit = build_circuit(model, tiny.specs(model, reference, mask, error), slots, tokens)
    be = be or PlainBackend(slots)
    request = circuit.request.pack([(hidden * spoil, mask)])
    live = {name: tuple(be.encrypt(v) for v in vectors) for name, vectors in request.items()}
    errors, largest = {}, []

    def inspect(name, tensors):
        largest.append(max(np.max(np.abs(be.decrypt(ct))) for cts in tensors.values() for ct in cts))
        if name in circuit.probes:
            probe = circuit.probes[name]
            (got,) = probe.read([be.decrypt(ct) for ct in tensors[probe.tensor]])
            errors[name] = np.max(np.abs(got - reference.trace[probe.reference][: len(got)]))

    out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed, inspect=inspect)
    (answer,) = circuit.response.read([be.decrypt(ct) for ct in out["answer"]])
    return circuit, reference, answer, errors, max(largest)


SHAPES = {
    "one window": (512, 16, {"hidden": 16, "heads": 2, "ff": 32}),
    "odd sizes": (512, 16, {"hidden": 24, "heads": 3, "ff": 70}),
    "heads not powers of two": (1024, 16, {"hidden": 60, "heads": 5, "ff": 50}),
    "several windows": (1024, 16, {"hidden": 96, "heads": 6, "ff": 130}),
    "sums of three windows": (1024, 16, {"hidden": 192, "heads": 12, "ff": 64, "layers": 2, "classes": 0}),
    "two layers": (1024, 16, {"hidden": 32, "heads": 2, "ff": 64, "layers": 2}),
    "three classes": (512, 16, {"hidden": 16, "heads": 2, "ff": 32, "classes": 3}),
    "relu": (512, 16, {"hidden": 16, "heads": 2, "ff": 32, "activation": "relu"}),
    "mean of tokens": (512, 16, {"hidden": 40, "heads": 2, "ff": 32, "pooling": "mean", "classes": 0}),
    "mean and classes": (512, 16, {"hidden": 16, "heads": 2, "ff": 32, "pooling": "mean"}),
    "raw [CLS]": (512, 16, {"hidden": 40, "heads": 2, "ff": 32, "pooling": "cls", "classes": 0}),
    "raw [CLS] and classes": (1024, 16, {"hidden": 32, "heads": 2, "ff": 64, "pooling": "cls", "layers": 2}),
    "pooled vector": (512, 16, {"hidden": 16, "heads": 2, "ff": 32, "classes": 0}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_plain_equals_the_reference(shape):
    slots, tokens, sizes = SHAPES[shape]
    _, reference, answer, errors, largest = run(tiny.checkpoint(**sizes), slots, tokens, 11)
    tolerance = 0.1 if shape == "relu" else 1e-3
    assert max(errors.values()) < tolerance
    assert np.max(np.abs(answer.values - reference.logits)) < tolerance
    assert largest <= 1.0 + 1e-3, "every boundary tensor can be bootstrapped"
    assert answer.sound(0.01)


def test_padding_does_not_reach_the_answer():
    model = tiny.checkpoint()
    hidden, mask = tiny.inputs(model, 16, 5)
    reference = tiny.run_reference(model, hidden, mask)
    circuit = build_circuit(model, tiny.specs(model, reference, mask), 512, 16)
    answers = []
    for noise in (0.0, 0.2):
        be = PlainBackend(512)
        moved = hidden + noise * (1 - mask)[:, None]
        live = {
            n: tuple(be.encrypt(v) for v in vs) for n, vs in circuit.request.pack([(moved, mask)]).items()
        }
        out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
        answers.append(circuit.response.read([be.decrypt(ct) for ct in out["answer"]])[0].values)
    assert np.max(np.abs(answers[0] - answers[1])) < 1e-4


def test_sim_with_noise_stays_near_the_reference():
    model = tiny.checkpoint(layers=2)
    be = SimBackend(512, inject=True)
    _, reference, answer, _, _ = run(model, 512, 16, 9, be=be, error=1e-4)
    assert np.max(np.abs(answer.values - reference.logits)) < 0.01
    assert answer.sound()


def test_row_sums_take_little_noise_on_the_way():
    """A row whose sum is small is divided by little, so what each rotation adds to it counts."""
    slots, tokens, sizes = SHAPES["sums of three windows"]
    model = tiny.checkpoint(**sizes)
    hidden, mask = tiny.inputs(model, tokens, 11)
    specs = tiny.specs(model, tiny.run_reference(model, hidden, mask), mask, 1e-5)
    circuit, quiet = build_circuit(model, specs, slots, tokens), PlainBackend(slots)
    noisy = SimBackend(slots, inject=True, noise=NoiseModel(slots, scale_bits=38.0))
    tensors = circuit.request.pack([(hidden, mask)])

    def inspect(_, live):
        tensors.update({name: [quiet.decrypt(ct) for ct in cts] for name, cts in live.items()})

    request = {name: tuple(quiet.encrypt(v) for v in vectors) for name, vectors in tensors.items()}
    run_greedily(quiet, circuit.stages, request, fixed=circuit.fixed, inspect=inspect)
    (mix,) = (stage for stage in circuit.stages if stage.name == "layer0.attention.mix")
    sums = mix.run(noisy, {n: tuple(noisy.encrypt(v) for v in vs) for n, vs in tensors.items()})
    (got,), (wanted,) = sums["layer0.attention.sums"], tensors["layer0.attention.sums"]
    assert (
        np.std(noisy.decrypt(got) - wanted) < 16 * noisy.model.rescale
    )  # 154 of those, were they added up as stored


def test_an_input_far_outside_the_calibrated_interval_is_noticed():
    with np.errstate(all="ignore"):  # values explode
        _, _, answer, _, _ = run(tiny.checkpoint(), 512, 16, 11, spoil=6.0)
    assert not answer.sound()


def test_specs_survive_json():
    model = tiny.checkpoint(layers=2)
    hidden, mask = tiny.inputs(model, 16, 9)
    specs = tiny.specs(model, tiny.run_reference(model, hidden, mask), mask)
    assert CircuitSpecs.from_json(json.loads(json.dumps(specs.to_dict()))) == specs


def test_specs_of_another_model_are_refused():
    one, two = tiny.checkpoint(layers=1), tiny.checkpoint(layers=2)
    hidden, mask = tiny.inputs(one, 16, 9)
    specs = tiny.specs(one, tiny.run_reference(one, hidden, mask), mask)
    with pytest.raises(PlanError, match=r"specs of 5 nodes, model of 9: they differ in layer1\.attention"):
        build_circuit(two, specs, 512, 16)
