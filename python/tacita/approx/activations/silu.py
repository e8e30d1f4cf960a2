"""SiLU, x / (1 + exp(-x)): the activation of SwiGLU gates."""

from __future__ import annotations

import numpy as np

from tacita.approx.activations.half_even import HalfEven
from tacita.approx.fit import Array


def exact(x: Array) -> Array:
    """Computes x sigmoid(x), elementwise; by tanh, which does not overflow."""
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(0.5 * x * (1.0 + np.tanh(0.5 * x)))


SILU = HalfEven("silu", exact)
fit, candidates = SILU.fit, SILU.candidates
