"""Observed ranges of a float run: minimum and maximum of every intermediate, by the reference's names.

Sums of exponentials and unnormalised contexts are kept as logarithms, so that any shift can be applied
afterwards and scores of any size do not overflow. Means over the real keys are kept beside the sums: a
client that encrypts 1/n instead of 1 in the mask makes the circuit see means, whose range does not grow
with the lengths of the texts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[float, float]
Estimate = Callable[[str, Array], Array | None]  # layer's name, its input -> (heads, tokens)

ROUNDS = (0, 1, 2, 3)  # square-and-normalise rounds for which the means of exp(score / 2^k) are kept
BINS = 64  # of the density of the activation's inputs
SAMPLED = 2000  # inputs of the activation that a sample adds to the density, about
TEMPERATURES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.125)  # factors of the scores for which means are kept, by head


class Ranges:
    """Collects (name, value) pairs of `models.bert.reference`; pass `see` as its record, after `start`.

    estimate: what a circuit takes from the scores of every row before exp (`blocks.row_estimate`), if anything.
    """

    def __init__(self, heads: int, estimate: Estimate | None = None) -> None:
        self._heads = heads
        self._estimate = estimate
        self._taken: Array | None = None  # from the scores of the present layer: (heads, tokens)
        self._mask: Array = np.ones(0)
        self._log_sums: Array = np.zeros((heads, 0))
        self._inputs: dict[str, list[Array]] = {}
        self.seen: dict[str, Interval] = {}
        self.rows = 0

    def start(self, mask: Array) -> None:
        """A new sample with this mask (tokens,)."""
        self._mask = mask
        self.rows += len(mask)

    def see(self, name: str, value: Array) -> None:
        """Widen the range of `name`. From scores also that of `log_mean`; from context also log_mixed and
        log_mixed_mean, of |sum_j w exp(score_ij) V_j| with weights w = 1 and 1/n.
        """
        layer, _, key = name.rpartition(".")
        if key == "input" and self._estimate is not None:
            self._taken = self._estimate(layer, value)
        elif key in ("scores", "log_sum_exp") and self._taken is not None:
            value = value - (self._taken[..., None] if key == "scores" else self._taken)
        self._merge(name, value)
        if key == "scores":
            self._means(layer, value[:, :, self._mask > 0.0])
        elif key == "log_sum_exp":
            self._log_sums = value
        elif key == "activation_input":
            self._inputs.setdefault(layer, []).append(_sampled(value[self._mask > 0.0]))
        elif key == "context":
            mixed = self._log_mixed(value)
            self._merge(f"{layer}.log_mixed", mixed)
            self._merge(f"{layer}.log_mixed_mean", mixed - np.log(self._mask.sum()))

    def interval(self, name: str) -> Interval:
        """Smallest and largest value seen."""
        return self.seen[name]

    def bound(self, name: str) -> float:
        """Largest magnitude seen."""
        lo, hi = self.seen[name]
        return max(abs(lo), abs(hi))

    def density(self, layer: str, interval: Interval) -> tuple[float, ...]:
        """Share of the activation's inputs of real tokens in each of BINS equal parts of the interval."""
        counts, _ = np.histogram(np.concatenate(self._inputs[layer]), BINS, interval)
        return tuple(float(c) for c in counts / counts.sum())

    def _merge(self, name: str, value: Array) -> None:
        lo, hi = self.seen.get(name, (np.inf, -np.inf))
        self.seen[name] = (min(lo, float(value.min())), max(hi, float(value.max())))

    def log_mean(self, layer: str, temperature: float, head: int | None = None) -> Interval:
        """Range of the log of the mean over real keys of exp(temperature * score), of one head or of all."""
        chosen = range(self._heads) if head is None else (head,)
        found = [self.seen[f"{layer}.log_mean.{temperature}.{h}"] for h in chosen]
        return min(lo for lo, _ in found), max(hi for _, hi in found)

    def _means(self, layer: str, scores: Array) -> None:
        top = scores.max(axis=-1, keepdims=True)
        for t in TEMPERATURES:
            logs = np.log(np.exp(t * (scores - top)).mean(axis=-1)) + t * top[..., 0]
            for head, values in enumerate(logs):
                self._merge(f"{layer}.log_mean.{t}.{head}", values)

    def _log_mixed(self, context: Array) -> Array:
        """Largest log |context| + log sum of each token and head: (tokens, heads)."""
        tokens = len(context)
        largest = np.abs(context.reshape(tokens, self._heads, -1)).max(axis=-1)
        return np.asarray(np.log(np.maximum(largest, np.finfo(np.float64).tiny)) + self._log_sums.T)


def _sampled(values: Array) -> Array:
    """About SAMPLED of the values, in the same distance; an odd one, so that all features take part."""
    flat = values.ravel()
    return flat[:: (len(flat) // SAMPLED) | 1]
