"""GELU in its form with tanh, as `gelu_new` and `gelu_pytorch_tanh` name it: within 5e-4 of the exact one."""

from __future__ import annotations

import math

import numpy as np

from tacita.approx.activations.half_even import HalfEven
from tacita.approx.fit import Array

ROOT, CUBE = math.sqrt(2.0 / math.pi), 0.044715


def exact(x: Array) -> Array:
    """Computes x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), elementwise."""
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(0.5 * x * (1.0 + np.tanh(ROOT * (x + CUBE * x**3))))


GELU_TANH = HalfEven("gelu_tanh", exact)
fit, candidates = GELU_TANH.fit, GELU_TANH.candidates
