"""A function of fewer features as one of copies: the same numbers, in every packing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacita import api
from tacita.blocks.base import Dense, Norm
from tacita.blocks.floats import FloatTensors
from tacita.blocks.graph import Graph, record, widened
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.checkpoint import from_tensors
from tacita.models.registry import tensor_shapes
from tacita.models.variants import AlbertConfig

HIDDEN, NARROW, WORDS, TOKENS = 16, 8, 7, 8


def head(b: Any, x: Any, narrow: int = NARROW, *, normed: bool = True, answered: bool = False) -> Any:
    x = b.function(b.linear(x, Dense("first", HIDDEN, narrow), "first"), "gelu", "first.gelu")
    x = b.norm(x, Norm("norm", narrow, 1e-5), "first.norm") if normed else x
    return b.answer(x if answered else b.linear(x, Dense("last", narrow, WORDS), "last"))


def walked(graph: Graph, tensors: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """The graph's nodes on floats."""
    b: Any = TensorBlocks(FloatTensors(Weights(tensors), np.ones(len(x))))
    now: Any = x
    for step in graph.steps:
        match step.op:
            case "function":
                now = b.function(now, step.node.kind, step.name)  # type: ignore[union-attr]
            case "linear" | "norm":
                now = getattr(b, step.op)(now, step.node, step.name)
    return np.asarray(b.answer(now))


@pytest.mark.parametrize("normed", [True, False])
def test_copies_give_the_same_numbers(normed: bool) -> None:
    graph = record(lambda b, x: head(b, x, normed=normed), 5, HIDDEN)
    wide = widened(graph, HIDDEN)
    widths = [step.output.shape[1] for step in wide.steps if step.op in ("linear", "function", "norm")]
    assert widths == [HIDDEN] * (len(widths) - 1) + [WORDS]
    rng = np.random.default_rng(0)
    shapes = {"first": (NARROW, HIDDEN), "last": (WORDS, NARROW)}
    tensors = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
    tensors |= {f"{name}.bias": rng.normal(size=shape[0]) for name, shape in shapes.items()}
    tensors |= {"norm.weight": rng.normal(size=NARROW), "norm.bias": rng.normal(size=NARROW)}
    x = rng.normal(size=(5, HIDDEN))
    assert np.allclose(walked(wide, tensors, x), walked(graph, tensors, x), atol=1e-12)


@pytest.mark.parametrize(
    "forward",
    [
        lambda b, x: head(b, x, HIDDEN),
        lambda b, x: head(b, x, 5),  # does not divide the width
        lambda b, x: head(b, x, 2 * HIDDEN),
        lambda b, x: head(b, x, answered=True),  # copies would be part of the answer
        lambda b, x: b.answer(b.linear(x, Dense("last", HIDDEN, 2), "last")),
    ],
)
def test_other_chains_stay(forward: Any) -> None:
    graph = record(forward, 5, HIDDEN)
    assert widened(graph, HIDDEN) == graph


@pytest.mark.parametrize("scheme", ["thor", "leaf", "arion", "moai"])
def test_masked_words_of_smaller_embeddings(scheme: str) -> None:
    """ALBERT's head in slots. The other sizes of `tests/vectors/families` do not divide and are refused."""
    sizes = {
        "layers": 1,
        "hidden": HIDDEN,
        "heads": 2,
        "intermediate": 24,
        "vocab": WORDS,
        "positions": TOKENS,
    }
    answers = {"task": "words", "pooling": "none", "labels": (), "embedding_size": NARROW}
    rest: dict[str, Any] = {**sizes, **answers, "types": 2, "activation": "gelu_tanh", "norm_eps": 1e-12}
    config = AlbertConfig(**rest)
    rng = np.random.default_rng(1)
    tensors = {k: 0.2 * rng.normal(size=s) for k, s in tensor_shapes(config).items()}
    model = from_tensors(config, tensors)
    samples = [(rng.normal(size=(TOKENS, HIDDEN)), np.ones(TOKENS)) for _ in range(60)]
    request: dict[str, Any] = {"tokens": TOKENS, "preset": "insecure_toy_n10", "hidden_states": samples[1:]}
    plan = replace(api.plan(model, scheme=scheme, **request), decimals=6)
    found = np.array(api.classify_locally(plan, model, hidden_states=samples[0][0]).logits)
    wanted = np.ravel(api.reference_logits(plan, model, hidden_states=samples[0][0]))
    assert np.abs(found - wanted).max() < (0.02 if scheme == "leaf" else 0.01)
