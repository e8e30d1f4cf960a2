"""Batch circuits on plain and sim against the float reference: several inputs of mixed lengths, both schemes,
lanes."""

import numpy as np
import pytest
import tiny
from circuits import build_batch_circuit
from greedy import run_greedily

from tacita.errors import InputError, ShapeError
from tacita.layouts.columns import BatchShape
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

LENGTHS = (11, 16, 3)


def run(model, shape, *, scheme="arion", be=None, error=1e-5, spoil=1.0, fused=False):
    """(circuit, references, answers, layer errors, largest boundary value) of three inputs of mixed
    lengths. fused: with every norm fused that can be."""
    inputs = [
        tiny.inputs(model, shape.tokens, min(real, shape.tokens), seed=n) for n, real in enumerate(LENGTHS)
    ]
    inputs = inputs[: shape.sequences]
    references = [tiny.run_reference(model, hidden, mask) for hidden, mask in inputs]
    specs = tiny.joint_specs(model, references, [mask for _, mask in inputs], error)
    circuit = build_batch_circuit(model, specs, shape, scheme)
    if fused:
        assert circuit.fusible
        circuit = build_batch_circuit(model, specs.with_fused(circuit.fusible), shape, scheme)
    be = be or PlainBackend(shape.slots)
    request = circuit.request.pack([(hidden * spoil, mask) for hidden, mask in inputs])
    live = {name: tuple(be.encrypt(v) for v in vectors) for name, vectors in request.items()}
    errors, largest = {}, []

    def inspect(name, tensors):
        largest.append(max(np.max(np.abs(be.decrypt(ct))) for cts in tensors.values() for ct in cts))
        if name in circuit.probes:
            probe = circuit.probes[name]
            got = probe.read([be.decrypt(ct) for ct in tensors[probe.tensor]])
            want = [r.trace[probe.reference][: got.shape[1]] for r in references]
            errors[name] = max(np.max(np.abs(g - w)) for g, w in zip(got, want, strict=False))

    out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed, inspect=inspect)
    answers = circuit.response.read([be.decrypt(ct) for ct in out["answer"]])
    return circuit, references, answers, errors, max(largest)


SHAPES = {
    "one layer": (128, 16, 1, {"hidden": 16, "heads": 2, "ff": 32}),
    "odd sizes": (64, 16, 1, {"hidden": 24, "heads": 3, "ff": 70}),
    "two layers": (64, 16, 1, {"hidden": 16, "heads": 2, "ff": 80, "layers": 2}),
    "long": (128, 32, 1, {"hidden": 16, "heads": 2, "ff": 32, "layers": 2}),
    "no classifier": (128, 16, 1, {"hidden": 16, "heads": 2, "ff": 32, "classes": 0}),
    "raw [CLS]": (128, 16, 1, {"hidden": 24, "heads": 3, "ff": 32, "pooling": "cls", "classes": 0}),
    "raw [CLS] and classes": (64, 16, 1, {"hidden": 16, "heads": 2, "ff": 32, "pooling": "cls", "layers": 2}),
    "mean": (128, 16, 1, {"hidden": 16, "heads": 2, "ff": 32, "pooling": "mean", "classes": 3}),
    "mean, no classifier": (64, 16, 1, {"hidden": 16, "heads": 2, "ff": 32, "pooling": "mean", "classes": 0}),
    "two lanes": (128, 16, 2, {"hidden": 16, "heads": 4, "ff": 30, "pooling": "mean", "classes": 5}),
    "four lanes": (
        256,
        16,
        4,
        {"hidden": 16, "heads": 4, "ff": 30, "pooling": "mean", "classes": 3, "layers": 2},
    ),
}


class Products(PlainBackend):
    """Lists its matrix products and its products of diagonals, in their order."""

    def __init__(self, slots):
        super().__init__(slots)
        self.order = []

    def matmul(self, *arguments):
        self.order.append("matmul")
        return super().matmul(*arguments)

    def products(self, *arguments):
        self.order.append("products")
        return super().products(*arguments)


def test_queries_keys_and_values_of_all_heads_are_made_at_once():
    """Each matrix product reads all inputs, which within a budget would come from disk for each head."""
    slots, tokens, lanes, sizes = SHAPES["mean"]
    run(tiny.checkpoint(**sizes), BatchShape(slots, tokens, lanes), be=(be := Products(slots)))
    made, first = ["matmul"] * sizes["heads"], be.order.index("products")
    assert be.order[:first] == made, "queries and keys"
    scores = next(i for i, name in enumerate(be.order) if name == "matmul" and i > first)
    assert be.order[scores : scores + len(made)] == made, "values"
    assert be.order[scores + len(made)] == "products"


@pytest.mark.parametrize(
    ("name", "scheme", "fused"),
    [(name, scheme, False) for name in SHAPES for scheme in ("arion", "moai")]
    + [(name, "arion", True) for name in ("two layers", "mean", "two lanes", "four lanes")],
)
def test_plain_equals_the_reference(name, scheme, fused):
    slots, tokens, lanes, sizes = SHAPES[name]
    shape, model = BatchShape(slots, tokens, lanes), tiny.checkpoint(**sizes)
    circuit, references, answers, errors, largest = run(model, shape, scheme=scheme, fused=fused)
    projected = "layer0.attention.project" in [stage.name for stage in circuit.stages]
    assert projected != fused and "layer0.norm1" in errors
    assert max(errors.values()) < 1e-3
    assert len(answers) == shape.sequences
    for answer, reference in zip(answers, references, strict=False):
        assert np.max(np.abs(answer.values - reference.logits)) < 1e-3
        assert answer.sound(0.01)
    assert largest <= 1.0 + 1e-3, "every boundary tensor can be bootstrapped"


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["two layers", "two lanes"])
def test_sim_with_noise_is_close(name, fused):
    slots, tokens, lanes, sizes = SHAPES[name]
    shape = BatchShape(slots, tokens, lanes)
    be = SimBackend(slots, inject=True)
    _, references, answers, _, _ = run(tiny.checkpoint(**sizes), shape, be=be, fused=fused)
    for answer, reference in zip(answers, references, strict=False):
        assert np.max(np.abs(answer.values - reference.logits)) < 5e-3


def test_an_input_outside_the_intervals_is_noticed():
    model, shape = tiny.checkpoint(hidden=16, heads=2, ff=32), BatchShape(64, 16)
    with np.errstate(all="ignore"):
        _, _, answers, _, _ = run(model, shape, spoil=40.0)
    assert not any(answer.sound() for answer in answers[:3])


def test_bad_requests_and_schemes_are_refused():
    model, shape = tiny.checkpoint(hidden=16, heads=2, ff=32), BatchShape(64, 16)
    circuit, *_ = run(model, shape)
    hidden, mask = tiny.inputs(model, 16, 4)
    with pytest.raises(InputError, match="5 inputs in a batch of 4"):
        circuit.request.pack([(hidden, mask)] * 5)
    with pytest.raises(InputError, match="shape"):
        circuit.request.pack([(hidden[:8], mask[:8])])
    specs = tiny.joint_specs(model, [tiny.run_reference(model, hidden, mask)], [mask], 1e-3)
    with pytest.raises(InputError, match="scheme"):
        build_batch_circuit(model, specs, shape, "thorn")
    with pytest.raises(ShapeError, match="lanes"):
        build_batch_circuit(model, specs, BatchShape(64, 16, 2))
    with pytest.raises(ShapeError, match="tokens"):
        BatchShape(64, 12)


def test_a_batch_that_is_not_full_looks_like_a_full_one():
    model, shape = tiny.checkpoint(hidden=16, heads=2, ff=32), BatchShape(128, 16)
    circuit, *_ = run(model, shape)
    hidden, mask = tiny.inputs(model, 16, 4)
    one, all_ = circuit.request.pack([(hidden, mask)]), circuit.request.pack([(hidden, mask)] * 8)
    for name in one:
        assert all(np.array_equal(a, b) for a, b in zip(one[name], all_[name], strict=True))
