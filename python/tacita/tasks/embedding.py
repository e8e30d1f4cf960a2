"""Embeddings: vectors that the client divides by their length, where the model does."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LEAST_LENGTH = 1e-12  # below it a vector is divided by this, as torch.nn.functional.normalize does


def finished(values: Array, normalise: bool) -> Array:
    """What the client makes of a decrypted answer (outputs,): it divides it by its Euclidean length, or
    leaves it.

    The length is that of sentence-transformers' module Normalize. No ciphertext is normalised: the client
    has the vector.
    """
    return np.asarray(values / max(length(values), LEAST_LENGTH)) if normalise else values


def length(values: Array) -> float:
    """Euclidean; infinite where it leaves the range of floats."""
    return math.hypot(*values.tolist())
