"""Models in the shapes of the papers' tables, with random weights of realistic size: enough to plan and to
time stages."""

from __future__ import annotations

import bench_on_path  # noqa: F401
import numpy as np

from bench.models.shapes import sized
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.models.bert import BertConfig
from tacita.models.registry import tensor_shapes

SHAPES = {  # layers, hidden, heads, intermediate
    "bert-tiny": (2, 128, 2, 512),
    "minilm-l6": (6, 384, 12, 1536),
    "bert-base": (12, 768, 12, 3072),
}


def random_model(name: str, *, layers: int | None = None, seed: int = 1) -> Checkpoint:
    """A [CLS] classifier of this shape that starts from hidden states."""
    depth, hidden, heads, wide = SHAPES[name]
    config = sized(layers or depth, hidden, heads, wide)
    return from_tensors(config, random_tensors(config, seed), name=f"{name} (random weights)")


def random_tensors(config: BertConfig, seed: int) -> dict[str, np.ndarray]:
    """All tensors of a model by name, the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    return {key: _tensor(key, shape, rng) for key, shape in tensor_shapes(config).items()}


def random_inputs(
    model: Checkpoint, tokens: int, count: int, seed: int = 2
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(hidden states, mask) of inputs whose lengths differ."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(tokens // 4, tokens, count, endpoint=True)
    return [
        (rng.normal(size=(tokens, model.config.hidden)), (np.arange(tokens) < n).astype(float))
        for n in lengths
    ]


def _tensor(key: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if len(shape) == 2:
        return rng.normal(0.0, 1.0 / np.sqrt(shape[1]), shape)
    return rng.normal(1.0 if key.endswith("LayerNorm.weight") else 0.0, 0.1, shape)
