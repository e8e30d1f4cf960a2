"""Batches of the models that the benchmarks run, on sim with noise in their real shapes and on a toy ring,
MiniLM there with a quarter of its widths: both against float."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dashformer
import numpy as np
import pytest
import tiny
from circuits import build_batch_circuit
from encrypted import greedy_engine, toy
from greedy import run_greedily

from tacita.checkpoint import Checkpoint, load, pad_hidden
from tacita.checkpoint.reference import reference
from tacita.data import DEFAULT_MODEL
from tacita.layouts.columns import BatchShape
from tacita.slots.base import Backend
from tacita.slots.noise import NoiseModel
from tacita.slots.sim import SimBackend
from tacita.texts.answer import softmax

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

# Twice what was measured. DASHformer's logits reach 20 and pass through a coarse ReLU in every layer.
LOGITS = {"default": 0.0029, "minilm": 0.0031, "minilm/4": 0.0013, "dashformer": 0.42}
PROBABILITIES = {"default": 0.0006, "minilm": 0.0031, "minilm/4": 0.00012, "dashformer": 0.009}
FULL_SLOTS, LENGTHS = 32768, (16, 9, 4)


def default_model() -> Checkpoint:
    return load(DEFAULT_MODEL)


def minilm(parts: int = 1) -> Checkpoint:
    """MiniLM-L6's widths and heads, or such a part of them; two of its six layers: one for all tokens, one
    for the first."""
    return tiny.checkpoint(hidden=384 // parts, heads=12 // parts, ff=1536 // parts, layers=2)


def dashformer_model() -> Checkpoint:
    if not dashformer.available():
        pytest.skip(dashformer.MISSING)
    return dashformer.load_model()


MODELS: dict[str, Callable[[], Checkpoint]] = {
    "default": default_model,
    "minilm": minilm,
    "minilm/4": lambda: minilm(4),
    "dashformer": dashformer_model,
}


def inputs_of(name: str, model: Checkpoint, tokens: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Three inputs; real sequences for DASHformer, else random hidden states of mixed lengths."""
    if name == "dashformer":
        hidden, _ = dashformer.load_inputs()
        return [pad_hidden(h, tokens) for h in hidden[:3]]
    return [tiny.inputs(model, tokens, real, seed=n) for n, real in enumerate(LENGTHS)]


def compared(
    name: str, scheme: str, shape: BatchShape, make: Callable[[object], tuple[Backend, object, object]]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of an answer and the float model's."""
    model = MODELS[name]()
    inputs = inputs_of(name, model, shape.tokens)
    references = [reference(model, hidden, mask) for hidden, mask in inputs]
    specs = tiny.joint_specs(model, references, [mask for _, mask in inputs], 1e-3)
    circuit = build_batch_circuit(model, specs, shape, scheme)
    be, encrypt, decrypt = make(circuit)
    live = {
        n: tuple(encrypt(v) for v in vs) for n, vs in circuit.request.pack(inputs[: shape.sequences]).items()
    }
    out, _ = run_greedily(be, circuit.stages, live, fixed=circuit.fixed)
    answers = circuit.response.read([decrypt(ct) for ct in out["answer"]])
    assert all(answer.sound() for answer in answers[: len(references)])
    return [(answer.values, ref.logits) for answer, ref in zip(answers, references, strict=False)]


def assert_agree(name: str, pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Logits and probabilities within the tolerances, and the same class."""
    for found, wanted in pairs:
        assert np.max(np.abs(found - wanted)) < LOGITS[name]
        assert np.max(np.abs(softmax(found) - softmax(wanted))) < PROBABILITIES[name]
        assert found.argmax() == wanted.argmax()


@pytest.mark.parametrize("scheme", ["arion", "moai"])
@pytest.mark.parametrize("name", MODELS)
def test_sim_with_the_full_rings_noise(name: str, scheme: str) -> None:
    lanes, tokens = (2, 64) if name == "dashformer" else (1, 16)
    shape = BatchShape(4 * tokens * lanes, tokens, lanes)

    def make(_circuit: object) -> tuple[Backend, object, object]:
        be = SimBackend(shape.slots, inject=True, noise=NoiseModel(FULL_SLOTS))
        return be, be.encrypt, be.decrypt

    assert_agree(name, compared(name, scheme, shape, make))


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("default", "arion"),
        ("default", "moai"),
        ("minilm/4", "arion"),
        ("dashformer", "arion"),
        ("dashformer", "moai"),
    ],
)
def test_encrypted_on_a_toy_ring(name: str, scheme: str, tmp_path: Path) -> None:
    """Takes the smallest ring that holds three inputs; the test above has the noise of the full one."""
    ring, lanes, tokens = ("n10", 2, 64) if name == "dashformer" else ("n8", 1, 16)
    params = toy(f"insecure_toy_{ring}")

    def make(circuit: object) -> tuple[Backend, object, object]:
        engine = greedy_engine(params, circuit, tmp_path)
        return engine.be, engine.encrypt, engine.secret.decrypt

    assert_agree(name, compared(name, scheme, BatchShape(params.slots, tokens, lanes), make))
