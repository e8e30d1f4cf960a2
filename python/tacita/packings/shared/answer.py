"""The ciphertexts of the answer of one text, of a pooled vector or of every token, laid out as
`layouts.vector` says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.layouts.arrays import Array, Diagonal, refuse
from tacita.layouts.numbered import runs_of
from tacita.layouts.rotations import rotate_sum
from tacita.layouts.runs import Response, Runs
from tacita.layouts.vector import AnswerBlocks, VectorLayout, blocks_of
from tacita.packings.encoding import WeightBias
from tacita.packings.shared.linear import Cts, Linear, Map
from tacita.slots.base import Backend, Ct
from tacita.slots.linear import LinearPlan


@dataclass(frozen=True, eq=False)
class Answering:
    """Pooled ciphertexts -> response ciphertexts. plan: one ciphertext (logits) or one per pooled ciphertext.

    width: slots to sum over for a logit, 1 for none. keep, bias: cut the sums out, add the bias; none where
    there is nothing to cut or to add.
    """

    blocks: AnswerBlocks
    plan: LinearPlan
    width: int
    keep: tuple[Array, ...]
    bias: tuple[Array, ...]

    def apply(self, be: Backend, pooled: Cts, check: Ct) -> Cts:
        """Makes the response of pooled / entry and the norm check of `operations.norm_check`."""
        out = be.linear(pooled, self.plan)
        if self.keep:
            sums = (rotate_sum(be, ct, self.width) for ct in out)
            out = [be.mul_vector(ct, mask) for ct, mask in zip(sums, self.keep, strict=True)]
        if self.bias:
            out = [be.add_vector(ct, shift) for ct, shift in zip(out, self.bias, strict=True)]
        out[0] = be.add(out[0], be.rotate(check, -self.blocks.norm))
        return tuple(out)

    @property
    def response(self) -> Response:
        """The layout of the response."""
        return self.blocks.response


def vector_answering(dense: WeightBias | None, layout: VectorLayout, entry: float, bound: float) -> Answering:
    """The answer of a vector: its features, or the logits of a dense map. entry, bound: bounds of the vector
    and of the logits."""
    if dense is None:
        return vector_features(layout, entry)
    return vector_logits(*dense, layout, entry, bound)


def vector_logits(weight: Array, bias: Array, layout: VectorLayout, entry: float, bound: float) -> Answering:
    """The answer of a dense map of the vector. weight (classes, hidden). entry: bound of the vector; bound:
    of the logits. Two levels.

    Period t holds the products of row t, then row t again; a sum over a period leaves logit t at its first
    slot. More classes than periods hold twice are `wide_logits`.
    """
    _, apart = blocks_of(layout.slots, layout.period, len(bias), dense=True)
    if not apart:
        return wide_logits(weight, bias, layout, entry, bound)
    rows = np.vstack([weight, weight]) * (entry / bound)
    rest = np.zeros(layout.slots - rows.shape[0] * layout.period)
    flat = np.concatenate([*(layout.vector(row) for row in rows), rest])
    blocks = AnswerBlocks(layout.slots, layout.period, len(bias), True, bound)
    return answer_logits(blocks, {(0, 0, 0): flat}, 1, bias)


def wide_logits(weight: Array, bias: Array, layout: VectorLayout, entry: float, bound: float) -> Answering:
    """The logits of many classes, side by side: as many diagonals a ciphertext as the vector's period has
    slots. Arguments: as of `vector_logits`. Two levels: the first leaves the logits in every block, which
    makes its diagonals as short as a block, the second cuts two. Raises ShapeError for a vector that is too
    long."""
    width, _ = blocks_of(layout.slots, layout.period, len(bias), dense=True)
    answer = AnswerBlocks(layout.slots, width, len(bias), False, bound)
    if width < layout.period:
        raise refuse("vector", f"{len(bias)} numbers of {layout.size} features", "use a larger ring")
    short = answer.count * width - len(bias)
    rows = np.pad(weight * (entry / bound), ((0, short), (0, layout.period - layout.size)))
    blocks = rows.reshape(answer.count, width, layout.period)
    plans = {(ct, 0, k): row for ct, part in enumerate(blocks) for k, row in turned(part)}
    shift = np.pad(bias / bound, (0, short)).reshape(answer.count, width)
    there = (np.arange(answer.count * width) < len(bias)).reshape(shift.shape)
    plan = LinearPlan.from_diagonals(plans, n_inputs=1, n_outputs=answer.count)
    cuts, added = (tuple(twice(part, layout.slots) for part in each) for each in (there, shift))
    return Answering(answer, plan, 1, cuts, added)


def turned(rows: Array) -> Iterator[tuple[int, Array]]:
    """(rotation, diagonal) of the products of a vector with these rows (width, period), in every block."""
    slot, period = np.arange(len(rows)), rows.shape[1]
    for step in range(period):
        yield step, rows[slot, (slot + step) % period]


def twice(values: Array, slots: int) -> Array:
    """Repeats the values in the first two blocks of the slots; zero behind them."""
    return np.concatenate([values, values, np.zeros(slots - 2 * len(values))])


def vector_features(layout: VectorLayout, entry: float) -> Answering:
    """The vector itself, at periods 0 and 1; the check at period 2. entry: its bound. One level."""
    inside = layout.vector(np.ones(layout.size))
    answer = AnswerBlocks(layout.slots, layout.period, layout.size, False, entry)
    both = block(inside, 0, layout.slots) + block(inside, 1, layout.slots)
    return answer_features(answer, {(0, 0, 0): both})


def answer_logits(blocks: AnswerBlocks, diagonals: Diagonal, inputs: int, bias: Array) -> Answering:
    """The diagonals leave products in blocks, whose sums are the logits."""
    plan = LinearPlan.from_diagonals(diagonals, n_inputs=inputs, n_outputs=1, split="giant")
    keep, offset = np.zeros((2, blocks.slots))
    at = np.arange(2 * blocks.size) * blocks.width
    keep[at], offset[at] = 1.0, np.tile(bias, 2) / blocks.bound
    return Answering(blocks, plan, blocks.width, (keep,), (offset,))


def answer_features(blocks: AnswerBlocks, diagonals: Diagonal) -> Answering:
    """Ciphertexts in, as many out."""
    plan = LinearPlan.from_diagonals(diagonals, n_inputs=blocks.count, n_outputs=blocks.count, split="baby")
    return Answering(blocks, plan, 1, (), ())


def block(v: Array, number: int, slots: int) -> Array:
    """Slot vector with v as block `number`, zero elsewhere."""
    out = np.zeros(slots)
    out[number * v.size : (number + 1) * v.size] = v
    return out


def at_first(slots: int) -> Array:
    """1 at slot 0 (of token 0), where the norm check is; zero elsewhere."""
    return block(np.ones(1), 0, slots)


# An answer for every token of one text: a dense map of all rows, twice, and a check of the last LayerNorm.
#
# In the layout of an inner tensor of 2 * size + 1 features: feature 0 is half the norm check at the first
# token and zero at all others, then come a token's numbers, then their copies. Padding's rows hold whatever
# the model gives for them. Both copies come from one map of the same numbers, so copies that differ, or
# numbers where no feature is, show a broken decode whatever those rows hold.


@dataclass(frozen=True, eq=False)
class TokenAnswering:
    """Maps every token to its answer: the numbers, their copies, and a place for the check."""

    response: Response
    map: Map

    @staticmethod
    def build(
        dense: WeightBias, linear: Linear[Any], src: Any, sizes: tuple[int, int], bounds: tuple[float, float]
    ) -> TokenAnswering:
        """Builds the map. dense: weight (outputs, hidden) and bias. src: layout of what is mapped. sizes:
        slots and tokens. bounds: of what is mapped, and of the answer. One level."""
        (weight, bias), (entry, bound) = dense, bounds
        zero, inner = np.zeros((1, weight.shape[1])), linear.bare.inner(2 * len(bias) + 1)
        both = np.concatenate([zero, weight, weight]) * (entry / bound)
        shift = np.concatenate([[0.0], bias, bias]) / bound
        response = token_response(inner, *sizes, len(bias), bound)
        return TokenAnswering(response, linear.affine(both, shift, src, inner))

    def apply(self, be: Backend, x: Cts, check: Ct) -> Cts:
        """Makes the response of x and the norm check, which is in slot 0, as feature 0 of the first token
        is."""
        first, *others = self.map.apply(be, x)
        return be.add(first, check), *others


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
