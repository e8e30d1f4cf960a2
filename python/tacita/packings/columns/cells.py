"""Cells: one vector per sequence of a batch, its numbers along the token axis, in few ciphertexts.

What belongs to one token only (the pooled vector, the answer, the whole last layer of a model that reads its
first token) takes size / tokens ciphertexts in cells, where columns would take `size`: hidden * tokens
numbers of room for `hidden`. Linear maps between cells are generalised diagonals whose vectors are constant
over sequences; they are encoded in blocks so that the encodings of a large map need not be in memory at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tacita.layouts.columns import Array, BatchAnswer, Cells, Columns, IntArray
from tacita.packings.columns.attention import RowSquares, completed, variance
from tacita.packings.columns.linear import BatchNorm, ColumnMap, dot, scaled
from tacita.packings.encoding import SUMMED, Argument, Encoding, WeightBias, apply
from tacita.packings.operations import Answering, RowSums
from tacita.packings.shared.first_token import OneQuery
from tacita.packings.shared.linear import Linear
from tacita.packings.weights import AttentionPlan, RotaryAngles, Side, turned
from tacita.slots.base import Backend, Ct, Cts
from tacita.slots.linear import LinearPlan

Diagonals = Mapping[tuple[int, int, int], Array]

VECTORS = 128  # encoded at once: 8 MB each at 15 limbs


@dataclass(frozen=True, eq=False)
class CellMap:
    """An affine map y = A x + b into cells. blocks: (first output, first input, plan with vectors of one
    number per token), each of which adds into the outputs from the first on. Uses one level."""

    dst: Cells
    blocks: tuple[tuple[int, int, LinearPlan], ...]
    bias: Array

    @staticmethod
    def build(matrix: Array, bias: Array, src: Cells, dst: Cells) -> CellMap:
        """Between cells. matrix (dst.size, src.size)."""
        m = src.shape.tokens
        padded = np.zeros((dst.count * m, src.count * m))
        padded[: dst.size, : src.size] = matrix
        grid, token = padded.reshape(dst.count, m, src.count, m), np.arange(m)
        diagonals = {
            (j, i, r): grid[j, token, i, (token + r) % m]
            for j in range(dst.count)
            for i in range(src.count)
            for r in range(m)
        }
        return CellMap(dst, tuple(_blocks(diagonals, src.count, dst.count)), dst.table(bias))

    @staticmethod
    def gather(matrix: Array, bias: Array, dst: Cells) -> CellMap:
        """Builds the map from one ciphertext per input with the same number in every token: no rotation.
        matrix (dst.size, inputs)."""
        tables = np.stack([dst.table(column) for column in matrix.T])
        diagonals = {(j, i, 0): tables[i, j] for i in range(len(tables)) for j in range(dst.count)}
        return CellMap(dst, tuple(_blocks(diagonals, len(tables), dst.count)), dst.table(bias))

    def apply(self, be: Backend, xs: Sequence[Ct]) -> Cts:
        """Computes the map. One level below xs."""
        outs: list[Ct | None] = [None] * self.dst.count
        shape = self.dst.shape
        for first_output, first_input, plan in self.blocks:
            parts = be.linear(xs[first_input : first_input + plan.n_inputs], plan.beside(shape.step))
            for j, part in enumerate(parts, first_output):
                before = outs[j]
                outs[j] = part if before is None else be.add(before, part)
        pairs = zip(outs, self.bias, strict=True)
        return tuple(be.add_vector(out, shape.at_tokens(row)) if row.any() else out for out, row in pairs)


def _blocks(diagonals: Diagonals, inputs: int, outputs: int) -> Iterator[tuple[int, int, LinearPlan]]:
    """Plans of at most VECTORS vectors where the shape allows it: a few outputs of a few inputs each.

    A block without any weight is left out, unless its outputs would have no block at all: an engine has no
    ciphertext of zero, so that an output without any weight gets a tiny one.
    """
    weighed = {j for (j, _, _), v in diagonals.items() if np.any(v)}
    rotations = len({r for _, _, r in diagonals})
    in_step = max(1, min(inputs, VECTORS // rotations))
    out_step = max(1, min(outputs, VECTORS // (rotations * in_step)))
    for j in range(0, outputs, out_step):
        for i in range(0, inputs, in_step):
            part = {
                (b - j, a - i, r): v
                for (b, a, r), v in diagonals.items()
                if j <= b < j + out_step and i <= a < i + in_step
            }
            counts = min(out_step, outputs - j), min(in_step, inputs - i)
            # every output of a block has a term, be it zero, so that all blocks give all their outputs
            alone = i == 0 and not weighed & set(range(j, j + out_step))
            used = {b for (b, _, _), v in part.items() if np.any(v)}
            part |= {key: v + 1e-30 for key, v in part.items() if key[0] not in used and key[1:] == (0, 0)}
            if alone or used:
                yield j, i, LinearPlan.from_diagonals(part, n_inputs=counts[1], n_outputs=counts[0])


@dataclass(frozen=True, eq=False)
class CellNorm(BatchNorm):
    """LayerNorm in cells."""

    cells: Cells

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance stored for rsqrt, in every token. One level."""
        total = self.cells.shape.total(be, dot(be, x, x))
        return be.add_const(be.mul_int(total, round(self.scale)), self.offset)


def cell_linear(cells: Cells) -> Linear[Any]:
    """How blocks compute on cells. One level, whatever the encoding of a residual."""
    maps = CellMap.build, _stacked, scaled, partial(CellNorm, cells=cells)
    return Linear(cells, *maps, cells, padded=False, mapped=True, exact=True)


def _stacked(maps: Sequence[WeightBias], src: Cells, dst: Cells) -> CellMap:
    size = dst.count * dst.shape.tokens
    weight = np.concatenate([np.pad(w, ((0, size - dst.size), (0, 0))) for w, _ in maps])
    bias = np.concatenate([np.pad(b, (0, size - dst.size)) for _, b in maps])
    return CellMap.build(weight, bias, src, Cells(dst.shape, len(maps) * size))


# Turns the tensors of a batch into the ciphertexts of its answers, laid out as `layouts.columns` says.


def batch_answering(answer: BatchAnswer, both: CellMap | ColumnMap) -> Answering:
    """The answer of a tensor. both: the map that gives both copies of its numbers. One level."""

    def apply(be: Backend, x: Cts, check: Ct) -> Cts:
        """The check is added in its cell, or stands behind the columns of every token."""
        outs = both.apply(be, x)
        if answer.rows != 1:
            return *outs, check
        place = answer.check_cell[0]
        return tuple(be.add(out, check) if i == place else out for i, out in enumerate(outs))

    return Answering(answer.response, apply)


def mean_answering(
    weight: Array, bias: Array, columns: Columns, entry: Encoding, answer: BatchAnswer
) -> tuple[Callable[[Backend, Cts], Cts], Answering]:
    """Mean over real tokens and classifier, on columns: (classify every token and add up, gather), one level
    each, and log2(tokens) rotations for each column of the answer.

    The columns come weighed by the mask, whose sum is 1. Only the answers' columns are summed, never those of
    `hidden` features, and offsets are added once, at the end. weight (answer, hidden), or the identity for a
    model without classifier. entry: encoding of the columns.
    """
    (matrix, offset), shape = entry.fold(weight, bias), columns.shape
    answers = Columns.dense(shape, len(bias))
    classify = ColumnMap.build([(matrix / answer.bound, columns)], 0.0 * offset, answers)
    places = _places(answers.index.T.ravel(), len(bias))
    twice = np.concatenate([places, places, np.zeros((1, places.shape[1]))])
    shift = np.concatenate([offset, offset, [0.0]]) / answer.bound
    gathered = batch_answering(answer, CellMap.gather(twice, shift, answer.cells))

    def mean(be: Backend, x: Cts) -> Cts:
        return tuple(shape.total(be, ct) for ct in classify.apply(be, x))

    def apply(be: Backend, x: Cts, check: Ct) -> Cts:
        turned = (be.rotate(ct, lane) if lane else ct for lane in range(shape.lanes) for ct in x)
        return gathered.apply(be, tuple(turned), check)

    return mean, Answering(answer.response, apply)


def mean_cells(columns: Columns, cells: Cells) -> Callable[[Backend, Cts], Cts]:
    """Weighed columns of one lane -> their mean in cells. One level, log2(tokens) rotations a column."""
    gather = CellMap.gather(_places(columns.index[:, 0], cells.size), np.zeros(cells.size), cells)
    return lambda be, x: gather.apply(be, [columns.shape.total(be, ct) for ct in x])


def _places(features: IntArray, size: int) -> Array:
    """(size, inputs): 1 where the input of this number is the feature."""
    return np.asarray(np.arange(size)[:, None] == features, np.float64)


# The last attention of a batch when only the first token is read: one query per sequence, then cells.
#
# x0, the first token in every token slot, is one masking product and log2(tokens) rotations per column.
# Scores of that one query need one product per column instead of one per diagonal, softmax runs on one
# ciphertext per head, and what follows (projection, LayerNorms, feed-forward, pooler) on hidden / tokens
# ciphertexts instead of `hidden` ones. The papers run all tokens to the end and pack [CLS] before the pooler
# (ARION) or not at all.


@dataclass(frozen=True)
class CellSums(RowSums):
    """Row sums of the one query, a ciphertext a head, in every token. total: adds up tokens, at no level."""

    total: Callable[[Backend, Ct], Ct]
    heads: int

    def masked(self, be: Backend, exps: Cts, masks: Cts, factor: float) -> Cts:
        """One level below exps, two below masks."""
        pairs = zip(exps, self.masks(be, masks, factor), strict=True)
        return tuple(self.total(be, be.mul(e, mask)) for e, mask in pairs)

    def plain(self, be: Backend, squares: Cts, factor: float) -> Cts:
        """A product with the factor, after the sum."""
        return tuple(be.mul_const(self.total(be, ct), factor) for ct in squares)

    def masks(self, be: Backend, masks: Cts, factor: float) -> Sequence[Ct]:
        """The mask is the same for all heads."""
        return [be.mul_const(masks[0], factor)] * self.heads

    def centred(self, be: Backend, sums: Cts, offset: float) -> Cts:
        """In all slots."""
        return tuple(be.add_const(ct, offset) for ct in sums)


class BatchFirstToken(OneQuery):
    """Attention of token 0 over all tokens; the result is in cells. Methods in order. One lane only."""

    def __init__(self, plan: AttentionPlan, columns: Columns) -> None:
        """Builds all maps. columns: of x."""
        self.plan, self.columns, self.sums = plan, columns, CellSums(columns.shape.total, plan.heads)
        self.query, self.key = self._map(plan.query()), self._map(plan.key())
        self.value = self._map(plan.value(1.0 / plan.specs.attended))
        matrix, bias = plan.projection(plan.specs.attended)
        both = np.concatenate([matrix, plan.output.fold_residual(columns.size)], axis=1)
        self._projection = CellMap.gather(both, bias, Cells(columns.shape, columns.size))
        self._squares = RowSquares.build(plan, columns)

    def _map(self, pair: WeightBias) -> ColumnMap:
        return ColumnMap.build([(pair[0], self.columns)], pair[1], self.columns)

    def select(self, be: Backend, x: Cts) -> Cts:
        """Copies the first token of x into every token. One level."""
        shape = self.columns.shape
        first = shape.at_tokens((np.arange(shape.tokens) == 0).astype(np.float64))
        return tuple(shape.total(be, be.mul_vector(ct, first)) for ct in x)

    def squares(self, be: Backend, x: Cts, first: Cts) -> tuple[Cts, Cts]:
        """Variances of a normalised query and keys: a ciphertext a head. 2 levels."""
        ours, theirs = (self._map(pair) for pair in self.plan.squared())
        queries, keys = self.plan.normed
        return self._variances(be, queries, ours.apply(be, first)), self._variances(
            be, keys, theirs.apply(be, x)
        )

    def _variances(self, be: Backend, side: Side, squares: Cts) -> Cts:
        return tuple(variance(be, side, part) for part in self._by_head(squares))

    def _by_head(self, cts: Sequence[Ct]) -> list[Sequence[Ct]]:
        size = self.plan.head_size
        return [cts[i : i + size] for i in range(0, len(cts), size)]

    def _normalised(self, be: Backend, queries: Cts, keys: Cts, roots: Sequence[Cts]) -> tuple[Cts, Cts]:
        ours, theirs = (
            tuple(
                ct
                for part, root in zip(self._by_head(cts), side, strict=True)
                for ct in completed(be, part, root, [complex(b) for b in beta[: self.plan.head_size]])
            )
            for cts, side, beta in zip((queries, keys), roots, self.plan.betas(), strict=True)
        )
        return ours, theirs

    def _turned(self, be: Backend, queries: Cts, back: RotaryAngles) -> Cts:
        features, tokens = self.columns.index[:, :1], np.arange(self.columns.shape.tokens)
        angles = back.of_features(features % self.plan.head_size, tokens)
        cos, sin = ([self.columns.shape.at_tokens(row) for row in side] for side in angles)
        return tuple(turned(be, queries, self._crossed(be, queries), cos, sin))

    def _crossed(self, be: Backend, queries: Cts) -> list[Ct]:
        """Orders the columns for the sines: of each head the second half, negated, then the first."""
        half = self.plan.head_size // 2
        return [
            ct
            for head in self._by_head(queries)
            for ct in (*(be.neg(ct) for ct in head[half:]), *head[:half])
        ]

    def _scored(self, be: Backend, queries: Cts, keys: Cts, first: Cts) -> Cts:
        """One ciphertext per head."""
        pairs = zip(self._by_head(queries), self._by_head(keys), strict=True)
        scores = [self._placed(be, dot(be, q, k), head) for head, (q, k) in enumerate(pairs)]
        if self._squares is None:
            return tuple(scores)
        return tuple(be.sub(s, self._squares.apply(be, first, head)) for head, s in enumerate(scores))

    def _placed(self, be: Backend, scores: Ct, head: int) -> Ct:
        specs, added = self.plan.specs, self.plan.positional.added
        offset = Argument.of(specs.exp).offset
        if added is None:
            return be.add_const(scores, offset)
        return be.add_vector(
            scores, self.columns.shape.at_tokens(added[head, 0] * specs.score_scale + offset)
        )

    @property
    def visible(self) -> list[Array] | None:
        """A mask for each head, 1 at the keys that the query sees; None without a limited reach."""
        visible = self.plan.positional.visible
        return None if visible is None else [self.columns.shape.at_tokens(visible[0])] * self.plan.heads

    def weigh(self, be: Backend, exps: Cts, masks: Cts) -> tuple[Cts, Cts]:
        """(exp * mask * lift, sums of exp * mask stored for the inverse). Two levels below exps; one below
        the squares of rounds, which come masked."""
        if self.plan.specs.rounds:
            return exps, self.sums.stored(be, exps, None, self.plan.specs.inverse)
        form, times = Argument.of(self.plan.specs.inverse), int(SUMMED)
        lift = self.plan.specs.lift
        mask, scale = be.mul_int(masks[0], lift), form.scale / lift / times
        weighed = tuple(be.mul(e, mask) for e in exps)
        sums = (self.columns.shape.total(be, be.mul_int(w, times)) for w in weighed)
        return weighed, tuple(be.add_const(be.mul_const(s, scale), form.offset) for s in sums)

    def attend(self, be: Backend, weighed: Cts, sums: Cts) -> Cts:
        """Attention weights: weighed / lift / sums, in [0, 1]. Levels: the inverse's and one."""
        specs = self.plan.specs
        lift = 1.0 if specs.rounds else specs.lift
        roots = (apply(be, s, specs.inverse, 1.0 / lift) for s in sums)
        return tuple(be.mul(w, r) for w, r in zip(weighed, roots, strict=True))

    def project(self, be: Backend, x: Cts, first: Cts, attention: Cts) -> Cts:
        """The stored sum of attention output and first, the residual's, in cells. 3 levels below x, 2 below
        attention, 1 below first."""
        level, shape = min(be.level(a) for a in attention), self.columns.shape
        values = self.value.apply(be, [be.drop_to(ct, min(be.level(ct), level + 1)) for ct in x])
        pairs = zip(self._by_head(values), attention, strict=True)
        mixed = [shape.total(be, be.mul(v, share)) for head, share in pairs for v in head]
        low = min(be.level(ct) for ct in (*mixed, *first))
        return self._projection.apply(be, [be.drop_to(ct, low) for ct in (*mixed, *first)])
