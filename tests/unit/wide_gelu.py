"""A model whose GELU inputs reach [-61, 108] on some texts, and samples that do not show it.

Two features of a hidden state are opposite in every sample that calibrates, and equal in the one that is
asked about. Two neurons look at their sum: it is small in all of the former and drives the one to 108 and the
other to -61 in the latter, while every other tensor stays where it was.
"""

from __future__ import annotations

import numpy as np
import tiny

from tacita.checkpoint import Checkpoint, from_tensors
from tacita.checkpoint.reference import reference

TOKENS, CENTRE = 8, 1.0
UP, DOWN = 108.0, -61.0


def model() -> Checkpoint:
    """One layer of 16 features and 32 neurons, the mean of all tokens for an answer."""
    made = tiny.checkpoint(hidden=16, heads=2, ff=32, pooling="mean", classes=0)
    tensors = {name: np.array(value, dtype=np.float64) for name, value in made.tensors.items()}
    for name in tensors:
        if "attention.output.dense" in name:
            tensors[name] *= 0.02  # the sum of the two features stays what it was
        if name.endswith("attention.output.LayerNorm.weight"):
            tensors[name][:] = 1.0
        if name.endswith("attention.output.LayerNorm.bias"):
            tensors[name][:] = 0.0
    return from_tensors(made.config, _with_neurons(made, tensors))


def _with_neurons(made: Checkpoint, tensors):
    """Of which the first is at UP for the asked sample, the second at DOWN."""
    wide, bias, narrow = (
        next(name for name in tensors if name.endswith(end))
        for end in ("intermediate.dense.weight", "intermediate.dense.bias", "0.output.dense.weight")
    )
    tensors[wide][:2], tensors[bias][:2] = 0.0, 0.0
    tensors[wide][:2, :2] = 1.0
    seen = reference(from_tensors(made.config, tensors), *asked()).trace["layer0.feed_forward.argument"]
    tensors[wide][:2] *= np.array([[UP], [DOWN]]) / np.max(seen[:, 0])
    tensors[narrow][:, :2] = 0.0
    tensors[narrow][3, :2] = 0.5 / UP, 0.5 / UP
    return tensors


def usual(seed: int):
    """A sample of those that calibrate: its first two features are opposite."""
    hidden, mask = np.random.default_rng(seed).uniform(-1.0, 1.0, (TOKENS, 16)), np.ones(TOKENS)
    hidden[:, 1] = -hidden[:, 0]
    return hidden - np.mean(hidden[:, 2:], axis=1, keepdims=True) * (np.arange(16) > 1), mask


def asked():
    """The same, but for one token whose first two features are equal."""
    hidden, mask = usual(999)
    hidden[5, :2] = CENTRE
    hidden[5, 2:4] -= CENTRE
    return hidden, mask
