"""The ciphertexts of the answer of one text, of a pooled vector or of every token, laid out as
`layouts.vector` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacita.layouts.arrays import Array, Diagonal, IntArray, refuse
from tacita.layouts.numbered import runs_of
from tacita.layouts.rotations import RealMap, rotate_sum
from tacita.layouts.runs import Response, Runs
from tacita.layouts.vector import AnswerBlocks, CyclicMap, VectorLayout, blocks_of
from tacita.packings.encoding import WeightBias
from tacita.packings.operations import Answering
from tacita.packings.shared.linear import Linear
from tacita.slots.base import Backend, Ct, Cts
from tacita.slots.linear import LinearPlan


def _answering(
    blocks: AnswerBlocks,
    products: RealMap | CyclicMap,
    width: int = 1,
    keep: Sequence[Array] = (),
    bias: Sequence[Array] = (),
) -> Answering:
    """Pooled / entry -> the response. products: one ciphertext (logits) or one per pooled ciphertext. width:
    slots to sum over for a logit, 1 for none. keep, bias: cut the sums out, add the bias; none where there is
    nothing to cut or to add."""

    def apply(be: Backend, pooled: Cts, check: Ct) -> Cts:
        out = list(products.apply(be, pooled))
        if keep:
            sums = (rotate_sum(be, ct, width) for ct in out)
            out = [be.mul_vector(ct, mask) for ct, mask in zip(sums, keep, strict=True)]
        if bias:
            out = [be.add_vector(ct, shift) for ct, shift in zip(out, bias, strict=True)]
        out[0] = be.add(out[0], be.rotate(check, -blocks.norm))
        return tuple(out)

    return Answering(blocks.response, apply)


def vector_answering(dense: WeightBias | None, layout: VectorLayout, entry: float, bound: float) -> Answering:
    """The answer of a vector: its features, or the logits of a dense map, of which more than periods hold
    twice are `wide_logits`. entry, bound: bounds of the vector and of the logits."""
    if dense and not blocks_of(layout.slots, layout.period, len(dense[1]), dense=True)[1]:
        return wide_logits(*dense, layout, entry, bound)
    sizes = layout.slots, layout.period, layout.size
    return block_answering(dense, [layout.index], sizes, (entry, bound), repeated=True)


def block_answering(
    dense: WeightBias | None,
    places: Sequence[IntArray],
    sizes: tuple[int, int, int],
    bounds: tuple[float, float],
    *,
    repeated: bool,
) -> Answering:
    """The answer of features in block 0, or in every block if repeated: the features twice and the check
    behind them (one level), or the logits of a dense map, weight (classes, hidden) and bias (two levels).

    places: of each ciphertext the feature at each slot of a block, or -1. sizes: slots, of a block, features.
    bounds: of the features, and of the logits.

    Block t holds the products of row t, then row t again; a sum over a block leaves logit t at its first
    slot. Raises ShapeError for more classes than blocks hold twice.
    """
    (slots, width, size), (entry, bound), inputs = sizes, bounds, len(places)
    diagonals: Diagonal = {}

    def put(values: Array, number: int, key: tuple[int, int]) -> None:
        at = *key, 0 if repeated else -number * width
        diagonals[at] = diagonals.get(at, 0.0) + block(values, number, slots)

    if dense is None:
        for i, features in enumerate(places):
            for number in (0, 1):
                put(np.where(features >= 0, 1.0, 0.0), number, (i, i))
        plan = LinearPlan.from_diagonals(diagonals, n_inputs=inputs, n_outputs=inputs, split="baby")
        return _answering(AnswerBlocks(slots, width, size, False, entry), RealMap(plan))
    weight, bias = dense
    blocks = AnswerBlocks(slots, width, len(bias), True, bound)
    for i, features in enumerate(places):
        for number, row in enumerate(np.vstack([weight, weight]) * (entry / bound)):
            put(np.where(features >= 0, row[features], 0.0), number, (0, i))
    plan = LinearPlan.from_diagonals(diagonals, n_inputs=inputs, n_outputs=1, split="giant")
    keep, offset = np.zeros((2, slots))
    at = np.arange(2 * len(bias)) * width
    keep[at], offset[at] = 1.0, np.tile(bias, 2) / bound
    return _answering(blocks, RealMap(plan), width, (keep,), (offset,))


def wide_logits(weight: Array, bias: Array, layout: VectorLayout, entry: float, bound: float) -> Answering:
    """The logits of many classes, side by side: as many diagonals a ciphertext as the vector's period has
    slots. Arguments: as of `vector_answering`. Two levels: the first leaves the logits in every block, which
    makes its diagonals as short as a block, the second cuts two. Raises ShapeError for a vector that is too
    long."""
    width, _ = blocks_of(layout.slots, layout.period, len(bias), dense=True)
    answer = AnswerBlocks(layout.slots, width, len(bias), False, bound)
    if width < layout.period:
        raise refuse("vector", f"{len(bias)} numbers of {layout.size} features", "use a larger ring")
    products = side_by_side(weight * (entry / bound), bias / bound, layout, answer.count, width)
    there = (np.arange(answer.count * width) < len(bias)).reshape(answer.count, width)
    return _answering(answer, products, 1, [twice(part, layout.slots) for part in there])


def side_by_side(weight: Array, bias: Array, layout: VectorLayout, count: int, width: int) -> CyclicMap:
    """The products of a vector with the rows of a weight (outputs, size) and the bias, one in each slot of a
    block of this width, in every block of so many ciphertexts. One level; a rotation for each two slots of a
    period. Vectors stay for the next token: those of 50,257 words and 768 features are 0.5 GB."""
    outputs = np.arange(count * width).reshape(count, width)
    places = list(np.where(outputs < len(bias), outputs, -1))
    return CyclicMap.build(weight, bias, [layout.index], places, kept=True)


def twice(values: Array, slots: int) -> Array:
    """Repeats the values in the first two blocks of the slots; zero behind them."""
    return np.concatenate([values, values, np.zeros(slots - 2 * len(values))])


def block(v: Array, number: int, slots: int) -> Array:
    """Slot vector with v as block `number`, zero elsewhere."""
    out = np.zeros(slots)
    out[number * v.size : (number + 1) * v.size] = v
    return out


# An answer for every token of one text: a dense map of all rows, twice, and a check of the last LayerNorm.
#
# In the layout of an inner tensor of 2 * size + 1 features: feature 0 is half the norm check at the first
# token and zero at all others, then come a token's numbers, then their copies. Padding's rows hold whatever
# the model gives for them. Both copies come from one map of the same numbers, so copies that differ, or
# numbers where no feature is, show a broken decode whatever those rows hold.


def token_answering(
    dense: WeightBias, linear: Linear[Any], src: Any, sizes: tuple[int, int], bounds: tuple[float, float]
) -> Answering:
    """Every token's answer: the numbers, their copies, and a place for the check. dense: weight (outputs,
    hidden) and bias. src: layout of what is mapped. sizes: slots and tokens. bounds: of what is mapped, and
    of the answer. One level."""
    (weight, bias), (entry, bound) = dense, bounds
    zero, inner = np.zeros((1, weight.shape[1])), linear.bare.inner(2 * len(bias) + 1)
    both = np.concatenate([zero, weight, weight]) * (entry / bound)
    mapped = linear.affine(both, np.concatenate([[0.0], bias, bias]) / bound, src, inner)

    def apply(be: Backend, x: Cts, check: Ct) -> Cts:
        first, *others = mapped.apply(be, x)
        return be.add(first, check), *others  # both in slot 0

    return Answering(token_response(inner, *sizes, len(bias), bound), apply)


def token_response(layout: Any, slots: int, tokens: int, size: int, bound: float) -> Response:
    """Describes an answer of so many numbers for every token. layout: of its features."""
    numbers, none = np.arange(1.0, tokens * size + 1.0).reshape(tokens, size), np.zeros((tokens, size))
    first = np.arange(tokens)[:, None] == 0

    def places(norm: Array, once: Array, again: Array) -> Runs:
        return runs_of(np.stack(layout.pack(np.concatenate([norm, once, again], axis=1))))

    once, again = places(0.0 * first, numbers, none), places(0.0 * first, none, numbers)
    zeros = ((0, 0, layout.count * slots, 1, 0),)
    norms = places(1.0 * first, none, none)
    return Response(slots, layout.count, 1, tokens, size, bound, once, again, norms, zeros)
