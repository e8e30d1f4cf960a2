"""Embeddings: vectors that the client divides by their length where the model does; how alike two are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.tasks.answer import Answer

Array = NDArray[np.float64]
LEAST_LENGTH = 1e-12  # below it a vector is divided by this, as torch.nn.functional.normalize does


@dataclass(frozen=True, repr=False)
class Embedding(Answer):
    """The vector of a text: `vector`, (outputs,).

    >>> near, far = Embedding(None, (0.6, 0.8), ()), Embedding(None, (-0.8, 0.6), ())
    >>> [round(near.similarity(other), 6) for other in (near, far)]
    [1.0, 0.0]
    """

    def similarity(self, other: Answer) -> float:
        """The cosine of the angle between two vectors of one model: 1 for texts that it finds alike."""
        return float(cosines(self.vector, other.vector[None, :])[0])


def cosines(query: Array, vectors: Array) -> Array:
    """query (outputs,), vectors (count, outputs) -> the cosine of each angle, (count,)."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    return np.asarray(vectors @ query / np.maximum(lengths, LEAST_LENGTH))


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
