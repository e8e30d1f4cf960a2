"""Weights of a block in the checkpoint's orientation, for the packings' plans."""

from __future__ import annotations

from dataclasses import dataclass

from tacita.blocks.base import Attention
from tacita.blocks.weights import Array, Weights


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """Float matrices (outputs, inputs) and biases of one attention."""

    query: Array
    query_bias: Array
    key: Array
    key_bias: Array
    value: Array
    value_bias: Array
    output: Array
    output_bias: Array

    @staticmethod
    def of(weights: Weights, a: Attention) -> AttentionWeights:
        """By the names in the declaration."""
        return AttentionWeights(
            *(part for d in (a.query, a.key, a.value, a.output) for part in weights.dense(d))
        )


def summed(weight: Array, bias: Array, *, centred: bool) -> tuple[Array, Array]:
    """Of the dense map at the end of a block: as it is, or so that the output is without its mean over
    features, which is all that a LayerNorm sees of it. Costs nothing."""
    return (weight - weight.mean(axis=0), bias - bias.mean()) if centred else (weight, bias)
