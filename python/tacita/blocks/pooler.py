"""From the last hidden states to the pooled vector: tanh pooler on the first token, or the mean over real tokens."""

from __future__ import annotations

from dataclasses import dataclass

from tacita.approx.spec import Spec
from tacita.backends.base import Backend, Ct
from tacita.blocks.linear import Affine
from tacita.blocks.stored import Stored, apply, output_bound
from tacita.packing.rows import Array, FeatureLayout, rotate_sum

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class Pooler:
    """tanh(W x + b) of every token (only the first is read later; the others must be zero, hence in range)."""

    dense: Affine
    tanh: Spec

    @staticmethod
    def build(weight: Array, bias: Array, layout: FeatureLayout, entry: float, tanh: Spec) -> Pooler:
        """layout: of x, with copies. entry: bound of x."""
        form = Stored.input_of(tanh)
        matrix, shift = weight * (entry * form.scale), bias * form.scale + form.offset
        return Pooler(Affine.build(matrix, shift, layout, layout), tanh)

    def pre_activation(self, be: Backend, x: Cts) -> Cts:
        """x / entry -> stored for tanh; one level."""
        return self.dense.apply(be, x)

    def activate(self, be: Backend, inner: Cts) -> Cts:
        """tanh / its largest value, at the first copy; the spec's levels."""
        return tuple(apply(be, ct, self.tanh, 1.0 / self.exit) for ct in inner)

    @property
    def exit(self) -> float:
        """Bound of the result."""
        return output_bound(self.tanh)


def mean(be: Backend, x: Cts, weights: Ct, layout: FeatureLayout) -> Cts:
    """Weighted sum over tokens, in every token. weights: encrypted mask / length, the same at all positions. One level,
    log2(tokens) rotations a ciphertext."""
    shape = layout.shape
    return tuple(rotate_sum(be, be.mul(ct, weights), shape.tokens, shape.window) for ct in x)
