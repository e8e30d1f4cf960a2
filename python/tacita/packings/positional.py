"""What an attention knows of two tokens by their positions alone, as plaintexts for a packing's layouts.

Rotary positions turn queries and keys by plaintexts: one level, and no key switch where a packing has the two
halves of a head side by side. What is added to scores takes nothing. Which keys a query sees multiplies the
exponentials by 0 and 1: one level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacita.blocks import sequence
from tacita.blocks.base import EVERYWHERE, Attention, Dense, Norm
from tacita.blocks.graph import Graph, Step, Value
from tacita.blocks.weights import Weights
from tacita.layouts.arrays import Array
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True, eq=False)
class RotaryAngles:
    """Rotary angles: cos, sin of (tokens, head size / 2); feature i of a head turns with feature i + half."""

    cos: Array
    sin: Array

    @property
    def phases(self) -> Array:
        """exp(i angle): what feature i + i * (feature i + half) is multiplied by."""
        return np.asarray(self.cos + 1j * self.sin)

    @property
    def back(self) -> RotaryAngles:
        """The other way round, for a query that meets keys which stay where they are."""
        return RotaryAngles(self.cos, -self.sin)

    def of_features(self, features: Array, tokens: Array) -> tuple[Array, Array]:
        """(cosines, sines) for these features at these tokens, which broadcast; zero for feature -1."""
        number = features % (2 * self.cos.shape[1]) % self.cos.shape[1]
        there = features >= 0
        return np.where(there, self.cos[tokens, number], 0.0), np.where(there, self.sin[tokens, number], 0.0)


@dataclass(frozen=True, eq=False)
class Positional:
    """What the positions of tokens give to one attention. rotary: rotary angles. added: (heads, queries,
    keys), to scaled scores. visible: (queries, keys) of 0 and 1. None for what it does not have."""

    rotary: RotaryAngles | None = None
    added: Array | None = None
    visible: Array | None = None

    def kept_from(self, query: int) -> bool:
        """Whether a limited reach keeps any key from this query: not from the first of reversed rows."""
        return self.visible is not None and not self.visible[query].all()

    @staticmethod
    def of(weights: Weights, a: Attention, tokens: int) -> Positional:
        """Builds what the attention's declaration names, for so many tokens."""
        square = tokens, tokens
        rotary = RotaryAngles(*sequence.angles(a.rotary, (tokens, a.head_size))) if a.rotary else None
        added = weights.relative(a.relative, square) if a.relative else None
        return Positional(
            rotary, added, sequence.reach_mask(square, a.reach) if a.reach != EVERYWHERE else None
        )


def crossed(weight: Array, heads: int) -> Array:
    """Rows (heads * head size, ...) of a dense map -> those by which the sines go: of each head its second
    half, negated, then its first."""
    left, right = np.split(weight.reshape(heads, -1, *weight.shape[1:]), 2, axis=1)
    return np.concatenate([-right, left], axis=1).reshape(weight.shape)


def turned(
    be: Backend, xs: Sequence[Ct], others: Sequence[Ct], cos: Sequence[Array], sin: Sequence[Array]
) -> list[Ct]:
    """Rotates by angles: xs * cos + others * sin, ciphertext by ciphertext; others: from the `crossed` rows.
    One level."""
    pairs = zip(xs, others, cos, sin, strict=True)
    return [be.add(be.mul_vector(x, c), be.mul_vector(y, s)) for x, y, c, s in pairs]


# A function of fewer features than a model's width, as one of copies of them that fill the width.
#
# Packings have room for `hidden` features and their loops, masks and sums run over all of them. The head of
# ALBERT's masked words maps 256 features to 128, takes a GELU and a norm, and maps to the vocabulary. Two
# copies of the 128 are 256 features, of which the mean and the variance are the same:
#
#     [y, y] = [W; W] x,  [g, g] = gelu([y, y]),  norm([g, g]) = [norm(g), norm(g)],  V n = [V/2, V/2] [n, n]
#
# No polynomial and no interval changes. The last map takes half of each copy, so that their noise is
# averaged. Both maps have the cost of maps of the whole width.

COPIED = ("function", "norm")  # between the two maps


def widened(graph: Graph, size: int) -> Graph:
    """The graph with copies wherever features are fewer than `size` and divide it. A chain that ends in
    another step than a map stays as it is."""
    copies: dict[str, int] = {}
    for step in graph.steps:
        for name in _chain(graph, step, size):
            copies[name] = size // step.output.shape[1]
    return Graph([_copied(step, copies) for step in graph.steps])


def _chain(graph: Graph, first: Step, size: int) -> Iterator[str]:
    """The steps whose results are copied: a map, a function and what follows it up to the next map."""
    features = first.output.shape[1]
    if first.op != "linear" or features >= size or size % features:
        return
    chain, now = [first], _only_reader(graph, first)
    while now is not None and now.op in COPIED:
        chain.append(now)
        now = _only_reader(graph, now)
    if now is not None and now.op == "linear" and len(chain) > 1:
        yield from (step.name for step in chain)


def _only_reader(graph: Graph, step: Step) -> Step | None:
    readers = graph.readers(step)
    return readers[0] if len(readers) == 1 else None


def _copied(step: Step, copies: dict[str, int]) -> Step:
    """The step with its node's and its tensors' features counted with their copies."""
    ins, outs = (copies.get(name, 1) for name in (step.inputs[0].step, step.name))
    if ins == outs == 1:
        return step
    node = step.node
    if isinstance(node, Dense):
        sizes = node.inputs * ins, node.outputs * outs
        node = replace(node, inputs=sizes[0], outputs=sizes[1], copies=(ins, outs))
    elif isinstance(node, Norm):
        node = replace(node, size=node.size * outs, copies=outs)
    inputs = tuple(_wide(value, copies) for value in step.inputs)
    return replace(step, node=node, inputs=inputs, output=_wide(step.output, copies))


def _wide(value: Value, copies: dict[str, int]) -> Value:
    rows, features = value.shape
    return Value(value.step, (rows, features * copies.get(value.step, 1)))
