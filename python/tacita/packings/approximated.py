"""The float model with a circuit's functions in place of its own: what approximations alone get wrong, in two
forward passes a text, where `plain` runs the whole packed circuit.

    approximated(model, specs, hidden, mask).answer    # beside reference(model, hidden, mask).logits

Errors have a long tail: of 50 reactions that a trained classifier was asked, most were off by less than 0.01
and one by 0.21, so that two texts say little of the largest of many. Noise is not in it
(`planning.trial`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.approx import softmax
from tacita.approx.spec import Spec
from tacita.blocks import sequence
from tacita.blocks.base import EVERYWHERE, Norm, Powers, Reach
from tacita.blocks.floats import Array, FloatTensors
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.models.registry import forward
from tacita.packings.specs import AttentionSpecs, CircuitSpecs
from tacita.texts.vectors import finished


@dataclass(frozen=True)
class Approximation:
    """The answer of an approximated model on one text. answer: as `checkpoint.reference.reference` has it.
    outside: whether a value of a real row left the domain of its function, beyond which a polynomial means
    nothing. Most clients are told so of their text; how many texts do, a plan's population states."""

    answer: Array
    outside: bool


class ApproximateTensors(FloatTensors):
    """Float tensors whose functions are the circuit's approximations. weights: of the model, tempered as the
    circuit's. specs: the circuit's. mask: of one text."""

    def __init__(self, weights: Weights, mask: Array, specs: CircuitSpecs) -> None:
        super().__init__(weights, mask)
        self._specs, self._queries, self.outside = specs, np.zeros(0), False

    def scores(self, queries: Array, keys: Array, name: str) -> Array:
        """Computes the scores as in floats, and keeps the queries, of which `softmax` takes row estimates."""
        self._queries = queries
        return super().scores(queries, keys, name)

    def softmax(self, scores: Array, name: str, reach: Reach = EVERYWHERE) -> Array:
        """Exponentials and one inverse for each row, or both phases."""
        spec = self._specs.attention(name)
        visible = sequence.visible(self._mask[..., None, :], scores.shape[-2:], reach)
        if spec.rows is not None:
            scores = scores - spec.rows.of(np.swapaxes(self._queries, 0, 1))[..., None]
        self._look(spec.exp, spec.share * scores[..., self._real(scores), :][..., self._mask > 0.0])
        if phases := spec.phases:
            return softmax.numpy(scores, visible, phases, self._mask.sum())
        return self._one_phase(scores, visible, spec)

    def powers(self, scores: Array, variant: Powers, name: str) -> Array:
        """Powers are told as exponentials are, with a stored inverse."""
        return self._one_phase(scores, self._mask[..., None, None, :], self._specs.attention(name))

    def function(self, x: Array, kind: str, name: str) -> Array:
        """The node's polynomial, or its function by a bootstrap."""
        spec = self._specs.function(name).function
        self._look(spec, x[..., self._real(x), :])
        return spec.numpy(x)

    def norm(self, x: Array, norm: Norm, name: str) -> Array:
        """Normalises with the approximation of 1/sqrt."""
        gamma, beta = self._weights.norm(norm)
        centred = x - x.mean(axis=-1, keepdims=True) if norm.centred else x
        variance = (centred**2).mean(axis=-1, keepdims=True) + norm.epsilon
        spec = self._specs.norm(name).rsqrt
        self._look(spec, variance[..., self._real(x), :])
        return np.asarray(centred * spec.numpy(variance) * gamma + beta)

    def _one_phase(self, scores: Array, visible: Array, spec: AttentionSpecs) -> Array:
        exponentials = spec.exp.numpy(scores) * (visible / self._mask.sum())
        means = exponentials.sum(axis=-1, keepdims=True)
        self._look(spec.inverse, means[..., self._real(means), :])
        return np.asarray(exponentials * spec.inverse.numpy(means))

    def _real(self, x: Array) -> NDArray[np.bool_]:
        """Which rows are those of tokens; of some of the rows, which are the first or last, all."""
        real = self._mask > 0.0
        return real if x.shape[-2] == len(real) else np.ones(x.shape[-2], np.bool_)

    def _look(self, spec: Spec, values: Array) -> None:
        low, high = spec.domain
        self.outside |= not (low <= values.min() and values.max() <= high)  # also of what is no number


def approximated(model: Checkpoint, specs: CircuitSpecs, hidden: Array, mask: Array) -> Approximation:
    """Runs the float model with the circuit's approximations on one text. model: its scores already scaled
    (`temper`)."""
    tensors = ApproximateTensors(Weights(model.tensors), mask, specs)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = forward(TensorBlocks(tensors), model.config, hidden, all_rows=False)
    answer = rows if model.config.every_token else rows[0]
    return Approximation(finished(answer, model.config.normalise), tensors.outside)
