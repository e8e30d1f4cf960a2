"""Observed ranges of a float run: minimum and maximum of every intermediate, by the reference's names.

Sums of exponentials and unnormalised contexts are kept as logarithms, so that any shift can be applied
afterwards and scores of any size do not overflow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[float, float]


class Ranges:
    """Collects (name, value) pairs of `models.bert.reference`; pass `see` as its record."""

    def __init__(self, heads: int) -> None:
        self._heads = heads
        self._log_sums: Array = np.zeros((heads, 0))
        self.seen: dict[str, Interval] = {}

    def see(self, name: str, value: Array) -> None:
        """Widen the range of `name`; from `context`, also the range of log |sum_j exp(score_ij) V_j|
        (log_mixed).
        """
        self._merge(name, value)
        if name.endswith("log_sum_exp"):
            self._log_sums = value
        elif name.endswith("context"):
            self._merge(name.replace("context", "log_mixed"), self._log_mixed(value))

    def interval(self, name: str) -> Interval:
        """Smallest and largest value seen."""
        return self.seen[name]

    def bound(self, name: str) -> float:
        """Largest magnitude seen."""
        lo, hi = self.seen[name]
        return max(abs(lo), abs(hi))

    def _merge(self, name: str, value: Array) -> None:
        lo, hi = self.seen.get(name, (np.inf, -np.inf))
        self.seen[name] = (min(lo, float(value.min())), max(hi, float(value.max())))

    def _log_mixed(self, context: Array) -> Array:
        """Largest log |context| + log sum of each token and head: (tokens, heads)."""
        tokens = len(context)
        largest = np.abs(context.reshape(tokens, self._heads, -1)).max(axis=-1)
        return np.asarray(np.log(np.maximum(largest, np.finfo(np.float64).tiny)) + self._log_sums.T)
