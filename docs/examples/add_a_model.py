"""The example of docs/guides/add-a-model.md: norms before the blocks, and a mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm
from tacita.blocks.floats import FloatTensors
from tacita.blocks.shapes import Shapes
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.layouts.registry import Shape
from tacita.packings.conformance import Case, check
from tacita.packings.lowering import lowering_of
from tacita.slots.plain import PlainBackend


@dataclass(frozen=True)
class PreNormConfig:
    """Sizes and options of one checkpoint."""

    layers: int
    hidden: int
    heads: int
    labels: tuple[str, ...]


def forward(b: Blocks[Any, Any], m: PreNormConfig, x: Any) -> Any:
    """The model: hidden states (tokens, hidden) -> answer (1, labels)."""
    for i in range(m.layers):
        at = f"layer{i}"
        y = b.norm(x, _norm(m, f"{at}.norm1"), f"{at}.norm1")
        x = b.add(x, b.attention(y, _attention(m, at), f"{at}.attention"))
        y = b.norm(x, _norm(m, f"{at}.norm2"), f"{at}.norm2")
        x = b.add(x, b.feed_forward(y, _feed_forward(m, at), f"{at}.feed_forward"))
    return b.answer(b.linear(b.mean(x, "mean"), Dense("classifier", m.hidden, len(m.labels)), "classifier"))


def _attention(m: PreNormConfig, at: str) -> Attention:
    query, key, value, output = (Dense(f"{at}.{part}", m.hidden, m.hidden) for part in ("q", "k", "v", "o"))
    return Attention(m.heads, query, key, value, output)


def _feed_forward(m: PreNormConfig, at: str) -> FeedForward:
    wide = 4 * m.hidden
    return FeedForward(Dense(f"{at}.up", m.hidden, wide), "gelu", Dense(f"{at}.down", wide, m.hidden))


def _norm(m: PreNormConfig, name: str) -> Norm:
    return Norm(name, m.hidden, epsilon=1e-5)


def tensor_shapes(m: PreNormConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor that a checkpoint must hold."""
    walk = Shapes()
    forward(walk, m, (1, m.hidden))
    return walk.tensors


# what it means: float64 on arrays that carry the names of the declarations
config = PreNormConfig(layers=1, hidden=16, heads=2, labels=("no", "yes"))
shapes = tensor_shapes(config)
assert shapes["layer0.q.weight"] == (16, 16) and shapes["classifier.bias"] == (2,)
rng = np.random.default_rng(0)
tensors = {name: rng.normal(0.0, 1.0 / np.sqrt(shape[-1]), shape) for name, shape in shapes.items()}
hidden, mask = rng.normal(size=(8, 16)), np.ones(8)
logits = forward(TensorBlocks(FloatTensors(Weights(tensors), mask)), config, hidden)
assert logits.shape == (1, 2)

# every other interpreter says the same: the exported suites take any model that is written in blocks
model = Case("norms before, averaged", lambda b, x: forward(b, config, x), features=16, heads=2)


rows = partial(lowering_of, shape=Shape("rows", "hoisted", slots=256, tokens=16))
columns = partial(lowering_of, shape=Shape("columns", "double", slots=128, tokens=16))
check(model, rows, PlainBackend(256, 400), tokens=16, tolerance=0.005)
check(model, columns, PlainBackend(128, 400), tokens=16, tolerance=0.005, texts=5)
