"""The last layer when only its first token is read: attention of one query, then a matrix-vector pipeline.

A single query needs one product with K instead of R, no packing of scores and no unpacking of exponentials:
the score of key j stays at token j, repeated over the positions of its head, and the mix is one product with
V and a sum over tokens. What follows works on one vector in vector packing, one ciphertext per tensor
whatever the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from tacita.approx.spec import scale_by
from tacita.layouts.arrays import Array, IntArray, ceil_power
from tacita.layouts.rotations import rotate_sum, spread
from tacita.layouts.rows import FeatureLayout, carried_index
from tacita.layouts.vector import CyclicMap, VectorLayout
from tacita.layouts.windows import HeadWindow
from tacita.packings.encoding import Argument, divide, divide_factor
from tacita.packings.operations import RowSums, encodable
from tacita.packings.rows.attention import context_scale
from tacita.packings.rows.division import Early, Gathered
from tacita.packings.rows.linear import Affine, context_layout, head_sums
from tacita.packings.shared.first_token import TextQuery
from tacita.packings.weights import AttentionPlan, Side
from tacita.slots.base import Backend, Ct, Cts

MIXING = 2  # levels from exponentials to context and sums, where iterations follow


@dataclass(frozen=True, eq=False)
class TokenSums(RowSums):
    """Row sums of the one query, in every token, at the positions of a window's heads."""

    windows: tuple[HeadWindow, ...]

    def masked(self, be: Backend, exps: Cts, masks: Cts, factor: float) -> Cts:
        """One level below exps, two below masks."""
        pairs = zip(exps, self.scaled(be, masks, factor), self.windows, strict=True)
        return tuple(totalled(be, be.mul(e, mask), w) for e, mask, w in pairs)

    def plain(self, be: Backend, squares: Cts, factor: float) -> Cts:
        """A product with a plaintext, after the sum."""
        each = zip(squares, self.windows, strict=True)
        return tuple(be.mul_vector(totalled(be, ct, w), in_heads(w) * factor) for ct, w in each)

    def masks(self, be: Backend, masks: Cts, factor: float) -> Sequence[Ct]:
        """The last of the request's, at the places of heads."""
        return [be.mul_vector(masks[-1], in_heads(w) * factor) for w in self.windows]

    def centred(self, be: Backend, sums: Cts, offset: float) -> Cts:
        """At the places of heads."""
        return tuple(
            be.add_vector(ct, in_heads(w) * offset) for ct, w in zip(sums, self.windows, strict=True)
        )


def in_heads(window: HeadWindow) -> Array:
    """[window]: 1 at the positions of the window's heads, 0 elsewhere."""
    return np.where(np.arange(window.shape.window) < window.width * len(window.heads), 1.0, 0.0)


def totalled(be: Backend, ct: Ct, window: HeadWindow) -> Ct:
    """The sum over tokens, in every token. No level."""
    return rotate_sum(be, ct, window.shape.tokens, window.shape.window)


class FirstTokenAttention(TextQuery):
    """Attention of query 0 over all keys. Build, then run the methods in order.

    packed_first: x holds token 0 in its second block, in every token, in place of copies. The query is then
    read from there, one level earlier than from a selected token. early: as of `rows.attention.Attention`.
    """

    def __init__(
        self,
        plan: AttentionPlan,
        layout: FeatureLayout,
        windows: tuple[HeadWindow, ...],
        *,
        packed_first: bool = False,
    ) -> None:
        """Builds all plans. layout: of x, with copies. packed_first: see the class and `can_carry`."""
        vector, context = (
            VectorLayout(layout.shape.slots, layout.size),
            context_layout(windows, plan.head_size),
        )
        self.early = Early.of(plan.specs, MIXING, limited=plan.positional.seen_first is not None)
        self.specs = self.early.specs(plan.specs) if self.early else plan.specs
        scale = context_scale(self.specs)
        super().__init__(
            plan,
            Affine.build,
            (layout.with_copies(not packed_first), context),
            list(context.home),
            carried_index(layout) if packed_first else vector.index,
            vector,
            values=scale * (self.early.context if self.early else 1.0),
            attended=divide_factor(self.specs.inverse) * scale,
        )
        self.windows, self.layout, self.packed_first = windows, layout, packed_first
        self.row_sums = TokenSums(windows)
        self.gathered = None if self.early else Gathered.of(windows)

    def select(self, be: Backend, x: Cts) -> Cts:
        """Takes the first token of x as a vector. One level."""
        if not self.packed_first:
            return self.select_residual(be, x)
        block = self.layout.blocks[0]
        second = be.mul_vector(x[0], np.where(carried_index(self.layout) >= 0, 1.0, 0.0))
        return (rotate_sum(be, second, self.layout.shape.window // block, block),)

    def select_residual(self, be: Backend, x: Cts) -> Cts:
        """Takes the first token of x, which has copies, as a vector. One level."""
        return (select_token(be, x, self.layout, self.vector),)

    def _query_source(self, x: Cts, first: Cts) -> Cts:
        return x if self.packed_first else first

    def _variances(self, be: Backend, side: Side, squares: Cts) -> Cts:
        pairs = zip(self.windows, squares, strict=True)
        return tuple(head_sums(be, be.square(ct), in_heads(w) > 0.0, w.width, side.offset) for w, ct in pairs)

    @property
    def _token_of_slot(self) -> IntArray:
        return np.arange(self.layout.shape.tokens)[:, None]

    def _scored(self, be: Backend, queries: Cts, keys: Cts, first: Cts) -> Cts:
        """Token j holds key j, repeated over each head's positions. 2 levels below both."""
        pairs = zip(self.windows, queries, keys, strict=True)
        return tuple(self._window_scores(be, window, be.mul(q, k)) for window, q, k in pairs)

    @property
    def visible(self) -> list[Array] | None:
        """A mask for each window, 1 at the keys that query 0 sees; None where it sees all."""
        if (row := self.plan.positional.seen_first) is None:
            return None
        return [np.repeat(row, self.layout.shape.window)] * len(self.windows)

    def _window_scores(self, be: Backend, window: HeadWindow, product: Ct) -> Ct:
        starts = np.where(np.arange(window.shape.window) % window.width == 0, in_heads(window), 0.0)
        totals = be.mul_vector(rotate_sum(be, product, window.width), starts)
        scores = spread(be, totals, window.width)
        return be.add_vector(scores, self._offsets(window))

    def _offsets(self, window: HeadWindow) -> Array:
        """[window] or, with relative positions, [slots]: what is added to the scores, at the positions of
        real heads at full width."""
        specs, added = self.plan.specs, self.plan.positional.added
        each = specs.score_offsets(self.plan.heads)[None, list(window.heads)]
        if added is not None:
            each = each + added[list(window.heads), 0].T * specs.score_scale
        rows = np.zeros((len(each), window.shape.window))
        rows[:, : window.width * each.shape[1]] = np.repeat(each, window.width, axis=1)
        return rows.reshape(-1)

    def mix(self, be: Backend, values: Cts, exps: Cts, masks: Cts) -> tuple[Cts, Cts]:
        """(context / bound, row sums stored for the inverse), the same in every token, at the heads'
        positions, one ciphertext of context a window and one of all sums. One level below exps; or two
        and those of iterations before the bootstrap, with sums a window.

        masks: the last one is keep[j] at all positions of token j; not read after rounds, where exps are
        squares.
        """
        pairs = [
            self._mix_window(be, *each, masks[-1])
            for each in zip(range(len(self.windows)), exps, values, strict=True)
        ]
        context, sums = zip(*pairs, strict=True)
        return tuple(context), (reduce(be.add, sums),) if self.gathered else tuple(sums)

    def _mix_window(self, be: Backend, number: int, exps: Ct, value: Ct, mask: Ct) -> tuple[Ct, Ct]:
        window, form = self.windows[number], Argument.of(self.specs.inverse)
        places = np.where(self.gathered.places(number), 1.0, 0.0) if self.gathered else in_heads(window)
        if self.specs.rounds:
            sums = be.mul_vector(totalled(be, exps, window), places * form.scale)
            return totalled(be, be.mul(exps, value), window), be.add_vector(sums, places * form.offset)
        mask = be.drop_to(mask, min(be.level(mask), be.level(value)))
        if self.early:
            context, sums = self._early_sums(be, self.early, exps, value, mask, places)
        else:
            factor, power = encodable(form.scale)
            scaled = scale_by(be, be.mul_vector(mask, places * factor), power)
            parts = be.mul(value, mask), scaled
            context, sums = (totalled(be, be.mul(exps, part), window) for part in parts)
        return context, be.add_vector(sums, places * form.offset)

    def _early_sums(
        self, be: Backend, early: Early, exps: Ct, value: Ct, mask: Ct, places: Array
    ) -> Sequence[Ct]:
        """Context and sums after the early iterations. A sum over tokens adds up their noise, so that they
        are `tokens` times as large until they are summed: an integer, which is free."""
        tokens = self.layout.shape.tokens
        large = be.mul_int(mask, tokens)
        parts = be.mul(value, large), large
        context, sums = (totalled(be, be.mul(exps, part), self.windows[0]) for part in parts)
        factors = (context, 1.0), (sums, early.sums), (sums, early.scale)
        numerators = [be.mul_vector(ct, places * (factor / tokens)) for ct, factor in factors]
        return early.begin(be, numerators[:2], numerators[2])

    def attend(self, be: Backend, context: Cts, sums: Cts) -> Cts:
        """Divides the context by its sums at the heads' positions, zero elsewhere, in [-1, 1]. Levels: the
        inverse's, and one more below the sums of several windows."""
        if self.gathered:
            return tuple(self.gathered.divide(be, context, sums[0], self.specs.inverse))
        return tuple(divide(be, c, s, self.specs.inverse) for c, s in zip(context, sums, strict=True))


def above(be: Backend, x: Cts, exps: Cts) -> Cts:
    """Drops x to two levels above the exponentials' where it is higher."""
    level = min(be.level(e) for e in exps) + 2
    return tuple(be.drop_to(ct, min(be.level(ct), level)) for ct in x)


KEYS, VALUES = 0, 1  # what is kept of a row


class StepAttention(FirstTokenAttention):
    """Attention of a new row over itself and those before it, whose keys and values are kept in rows, the
    last token first, without their biases: a row that is not there yet is zero, as of x that is zero.

    One map gives all that a new row has, side by side: a window's query, key and value are blocks of one
    vector, repeated over all slots.

        key | value | query | zeros | key | ...

    Queries that positions turn have a map of their own, which leaves them in every token a level earlier.
    """

    def _build(self, values: float) -> None:
        rotary, parts = self.plan.positional.rotary is not None, [self.plan.key(), self.plan.value(values)]
        self._biases = [self.heads.vectors(bias) for _, bias in parts]
        parts = [(weight, np.zeros_like(bias)) for weight, bias in parts]
        if rotary:
            self.query = self._query(self.plan.query(), crossing=True)
        else:
            parts.append(self.plan.query())
        weight, bias = (np.concatenate(side) for side in zip(*parts, strict=True))
        numbers = range(0, len(bias), len(parts[0][1]))
        blocks = [np.where(row >= 0, row + first, -1) for first in numbers for row in self.places]
        window = len(blocks[0])
        self._beside = min(ceil_power(len(blocks)), self.vector.slots // window)  # blocks of a ciphertext
        blocks += [np.full(window, -1)] * (-len(blocks) % self._beside)
        wide = np.reshape(blocks, (-1, self._beside * window))
        self._new = CyclicMap.build(weight, bias, [self.asked], list(wide))

    def new(self, be: Backend, first: Cts) -> Cts:
        """All that the new row has. One level."""
        return self._new.apply(be, first)

    def later(self, be: Backend, new: Cts, kept: Cts, side: int) -> Cts:
        """Kept rows of keys or of values -> those of the next text: row t is row t - 1 of before, row 0 that
        of the new row. One level below `new`. What was the last row must have been zero. Cost: two rotations
        a ciphertext."""
        shifted, window = list[Ct](), self.layout.shape.window
        for number, ct in enumerate(kept, side * len(kept)):
            at = number % self._beside * window
            placed = be.rotate(self._block(be, new, number, self.vector.slots), at)
            rows = be.drop_to(ct, min(be.level(ct), be.level(placed)))
            shifted.append(be.add(be.rotate(rows, -window), placed))
        return tuple(shifted)

    def biased(self, be: Backend, rows: Cts, side: int) -> Cts:
        """Keys or values of rows as they are kept."""
        return tuple(be.add_vector(ct, b) for ct, b in zip(rows, self._biases[side], strict=True))

    def scores_of(self, be: Backend, new: Cts, keys: Cts, first: Cts) -> Cts:
        """Scores of the new row at every key, stored for exp. keys: as kept, with the new one's. first: what
        `new` is of. Levels below `first`: four."""
        angles, window = self.plan.positional.rotary, self.layout.shape.window
        if angles is not None:
            queries = self._turned(be, self.query.apply(be, first), angles.back)
        else:
            numbers = range(2 * len(keys), 3 * len(keys))
            alone = (self._block(be, new, number, self._beside * window) for number in numbers)
            queries = tuple(spread(be, ct, self._beside, window) for ct in alone)
        return self._scored(be, queries, self.biased(be, keys, KEYS), first)

    def _block(self, be: Backend, new: Cts, number: int, period: int) -> Ct:
        """One block of what the new row has, in its place, once in every period. One level."""
        window, (source, at) = self.layout.shape.window, divmod(number, self._beside)
        place = np.zeros(period)
        place[at * window : (at + 1) * window] = 1.0
        return be.mul_vector(new[source], place)


def select_token(be: Backend, x: Sequence[Ct], layout: FeatureLayout, dst: VectorLayout) -> Ct:
    """Token 0 of x in vector packing. One level; log2(slots/period) + ciphertexts - 1 rotations."""
    window, total = layout.shape.window, None
    for i, ct in enumerate(x):
        mask = np.zeros(layout.shape.slots)
        mask[:window] = np.where(layout.home[i] >= 0, 1.0, 0.0)
        part = be.rotate(be.mul_vector(ct, mask), -i * window)
        total = part if total is None else be.add(total, part)
    return spread(be, total, dst.slots // dst.period, dst.period)
