"""Calibration of a model whose embedding stays at the server: bounds of the tables, and samples as such a
request holds them.

A client that looks words up cannot pad with copies of a whole row, since the server adds the positions. It
pads with the first token instead, so padded rows are its word at later positions: they are part of the
samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import Positions
from tacita.blocks.weights import Weights
from tacita.calibrate.calibrate import Sample
from tacita.calibrate.outwards import outwards, up
from tacita.checkpoint import Checkpoint
from tacita.front.embed import Text, padded_words
from tacita.two_party.base import EmbeddingBounds, NormBounds

Array = NDArray[np.float64]
WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"
MOST_SAMPLES = 64  # every one is as long as a request


def hidden_embedding(
    checkpoint: Checkpoint, tokens: int, texts: Sequence[Text], margin: float
) -> tuple[EmbeddingBounds, NormBounds | None, list[Sample]]:
    """Bounds, also of the norm after the tables, and (hidden states, mask) of the first `MOST_SAMPLES` texts
    with padding."""
    config, tensors = checkpoint.config, checkpoint.tensors
    types = TYPES if config.types else None
    known = Weights(tensors).positions(Positions(POSITIONS, types, config.hidden), tokens)
    rows = [padded_words(checkpoint, text, tokens) for text in texts[:MOST_SAMPLES]]
    sums = [tensors[WORDS][ids] + known for ids, _ in rows]
    norm = _norm(checkpoint, sums, margin) if config.embedding_norm else None
    entry = float(np.abs(tensors[WORDS]).max()) + float(np.abs(known).max())
    samples = [(normalised(checkpoint, total), mask) for total, (_, mask) in zip(sums, rows, strict=True)]
    return EmbeddingBounds(power_above(np.array(entry))), norm, samples


def normalised(checkpoint: Checkpoint, x: Array) -> Array:
    """The LayerNorm after the tables, if the model has one."""
    if not checkpoint.config.embedding_norm:
        return x
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + checkpoint.config.norm_eps)
    tensors = checkpoint.tensors
    return np.asarray(x * tensors["embeddings.LayerNorm.weight"] + tensors["embeddings.LayerNorm.bias"])


def power_above(values: Array) -> float:
    """The least power of two above every magnitude; 1 for zeros."""
    largest = float(np.abs(values).max())
    return float(2.0 ** (math.floor(math.log2(largest)) + 1)) if largest > 0.0 else 1.0


def _norm(checkpoint: Checkpoint, sums: Sequence[Array], margin: float) -> NormBounds:
    centred = np.stack([x - x.mean(axis=-1, keepdims=True) for x in sums])
    variance = (centred**2).mean(axis=-1) + checkpoint.config.norm_eps
    wider = 1.0 + 4.0 * margin
    interval = outwards((float(variance.min()) / wider, float(variance.max()) * wider))
    gamma = power_above(checkpoint.tensors["embeddings.LayerNorm.weight"])
    return NormBounds(up(float(np.abs(centred).max()) * wider), interval, gamma)
