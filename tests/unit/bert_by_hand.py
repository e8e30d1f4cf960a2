"""BERT's definition once more, token by token and without any code of the package: what poolings are tested
against."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

Tensors = Mapping[str, np.ndarray]


def embedding(
    tensors: Tensors, ids: Sequence[int], *, heads: int, layers: int, pooling: str, normalise: bool
) -> np.ndarray:
    """The vector of one text without padding: as BertModel's pooler_output, as its last_hidden_state[0], or
    the mean over tokens; then torch.nn.functional.normalize of it, if wanted."""
    x = [_start(tensors, place, token) for place, token in enumerate(ids)]
    for index in range(layers):
        x = _layer(tensors, f"encoder.layer.{index}.", x, heads)
    vector = {
        "pooler": lambda: np.array([math.tanh(v) for v in _dense(tensors, "pooler.dense", x[0])]),
        "cls": lambda: x[0],
        "mean": lambda: sum(x) / len(x),
    }[pooling]()
    return vector / math.sqrt(sum(v * v for v in vector)) if normalise else vector


def _start(tensors: Tensors, place: int, token: int) -> np.ndarray:
    rows = {"word": token, "position": place, "token_type": 0}
    total = sum(tensors[f"embeddings.{name}_embeddings.weight"][row] for name, row in rows.items())
    return _norm(tensors, "embeddings.LayerNorm", total)


def _layer(tensors: Tensors, name: str, x: list[np.ndarray], heads: int) -> list[np.ndarray]:
    query, key, value = (
        [np.split(_dense(tensors, f"{name}attention.self.{part}", row), heads) for row in x]
        for part in ("query", "key", "value")
    )
    return [_token(tensors, name, row, q, key, value) for row, q in zip(x, query, strict=True)]


def _token(tensors: Tensors, name: str, row: np.ndarray, query: list, keys: list, values: list) -> np.ndarray:
    mixed = []
    for head, q in enumerate(query):
        powers = [math.exp(float(q @ k[head]) / math.sqrt(len(q))) for k in keys]
        mixed.append(sum(p * v[head] for p, v in zip(powers, values, strict=True)) / sum(powers))
    attended = _dense(tensors, f"{name}attention.output.dense", np.concatenate(mixed))
    y = _norm(tensors, f"{name}attention.output.LayerNorm", row + attended)
    wide = [
        0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in _dense(tensors, f"{name}intermediate.dense", y)
    ]
    return _norm(
        tensors, f"{name}output.LayerNorm", y + _dense(tensors, f"{name}output.dense", np.array(wide))
    )


def _dense(tensors: Tensors, name: str, x: np.ndarray) -> np.ndarray:
    return tensors[f"{name}.weight"] @ x + tensors[f"{name}.bias"]


def _norm(tensors: Tensors, name: str, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean()
    return (
        centred / math.sqrt((centred @ centred) / len(x) + 1e-12) * tensors[f"{name}.weight"]
        + tensors[f"{name}.bias"]
    )
