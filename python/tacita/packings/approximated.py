"""The float model with a circuit's functions in place of its own: what approximations alone get wrong, in two
forward passes a text, where `plain` runs the whole packed circuit.

    approximated(model, specs, hidden, mask)    # beside reference(model, hidden, mask).logits

Errors have a long tail: of 50 reactions that a trained classifier was asked, most were off by less than 0.01
and one by 0.21, so that two texts say little of the largest of many. Noise is not in it (`planning.trial`).
"""

from __future__ import annotations

import numpy as np

from tacita.approx.exponentials import softmax
from tacita.blocks.base import EVERYWHERE, Norm, Powers, Reach
from tacita.blocks.floats import Array, FloatTensors
from tacita.blocks.meaning import Meaning
from tacita.blocks.sequence import distances
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.models.registry import forward
from tacita.packings.specs import AttentionSpecs, CircuitSpecs
from tacita.tasks.embedding import finished


class ApproximateTensors(FloatTensors):
    """weights: of the model, tempered as the circuit's. specs: the circuit's."""

    def __init__(self, weights: Weights, mask: Array, specs: CircuitSpecs) -> None:
        super().__init__(weights, mask)
        self._specs, self._queries = specs, np.zeros(0)

    def scores(self, queries: Array, keys: Array, name: str) -> Array:
        """As in floats; row estimates are taken of the queries later."""
        self._queries = queries
        return super().scores(queries, keys, name)

    def softmax(self, scores: Array, name: str, reach: Reach = EVERYWHERE) -> Array:
        """Exponentials and one inverse for each row, or both phases."""
        found = self._specs.attention(name)
        seen = distances.visible(self._mask[..., None, :], scores.shape[-2:], reach)
        if found.first is not None:
            return softmax.numpy(scores, seen, softmax.TwoPhases(found.exp, found.first, found.inverse))
        if found.rows is not None:
            scores = scores - found.rows.of(np.swapaxes(self._queries, 0, 1))[..., None]
        return self._one_phase(scores, seen, found)

    def powers(self, scores: Array, variant: Powers, name: str) -> Array:
        """Powers are told as exponentials are, with a stored inverse."""
        return self._one_phase(scores, self._mask[..., None, None, :], self._specs.attention(name))

    def function(self, x: Array, kind: str, name: str) -> Array:
        """The node's polynomial, or its function by a bootstrap."""
        return self._specs.function(name).function.numpy(x)

    def norm(self, x: Array, norm: Norm, name: str) -> Array:
        """With the polynomial of 1/sqrt."""
        gamma, beta = self._weights.norm(norm)
        centred = x - x.mean(axis=-1, keepdims=True) if norm.centred else x
        variance = (centred**2).mean(axis=-1, keepdims=True) + norm.epsilon
        return np.asarray(centred * self._specs.norm(name).rsqrt.numpy(variance) * gamma + beta)

    def _one_phase(self, scores: Array, seen: Array, found: AttentionSpecs) -> Array:
        exponentials = found.exp.numpy(scores) * (seen / self._mask.sum())
        return np.asarray(exponentials * found.inverse.numpy(exponentials.sum(axis=-1, keepdims=True)))


def approximated(model: Checkpoint, specs: CircuitSpecs, hidden: Array, mask: Array) -> Array:
    """The answer of one text, as `models.reference.reference` has it. model: tempered."""
    blocks = Meaning(ApproximateTensors(Weights(model.tensors), mask, specs))
    rows = forward(blocks, model.config, hidden, all_rows=False)
    answer = rows if model.config.every_token else rows[0]
    return finished(answer, model.config.normalise)
