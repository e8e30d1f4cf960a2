"""Multi-head attention on interleaved columns: scores by diagonals, exponentials, mix, normalisation,
projection.

Diagonal r = G + B of the scores of a head is a ciphertext; it is kept as P[G][B], slot t = score of query t -
G with key t + B, so that

    P[G][B] = sum_c rot_-G(Q_c) * rot_B(K_c)        context_c = sum_G rot_G( sum_B exp(P[G][B]) * rot_B(V_c) )

need rotations of columns only: (b + g - 2) of Q_c and K_c, b - 1 of V_c and g - 1 of partial sums (ARION's
double baby-step giant-step, Algorithms 1 to 6). Products are added up at degree 2 and relinearised once per
diagonal and per (G, c), which neither paper does; and columns go two by two as complex numbers, which halves
all of it: the real part of (q - i q')(k + i k') is q k + q' k', and P (v + i v') is two contexts. MOAI's
Algorithms 5 to 7 are the case of one giant step for the scores, with the exponentials rotated once per head
before the mix. Softmax is normalised after the product with V. The encrypted mask (1/length at real tokens)
multiplies V and, as a column of its own, gives the row means; so lengths may differ within the batch and stay
unknown.

A round of softmax (`approx.softmax`) takes the row means too, one ciphertext of a group of heads, which is
refreshed there and then: a head's exponentials wait for it. The first round's inverse takes the mask along,
so that squares are zero at padding, whatever its scores are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import isqrt

import numpy as np

from tacita.approx.softmax import Round
from tacita.layouts.arrays import ceil_power
from tacita.layouts.columns import Array, Columns, IntArray, shifted
from tacita.layouts.rotations import doubled_parts, doubled_real, joined
from tacita.packings.columns.linear import ColumnMap, dot
from tacita.packings.encoding import Argument, apply, apply_unit, output_bound
from tacita.packings.weights import AttentionPlan, Positional, Side
from tacita.slots.base import Backend, Ct, Cts

DOUBLED = 0.5  # share of scores and values: real parts come doubled
AT_ONCE = 4  # pairs of columns whose rotations are alive together
PROJECTED = 16  # columns of Q and of K that one matrix product makes at least: each prepares all inputs
BESIDE = 24  # or so many times fewer than there are inputs: what is made is small beside what is read


@dataclass(frozen=True)
class Split:
    """How diagonals are split into steps: diagonal r = giant * babies + baby."""

    babies: int
    giants: int

    @staticmethod
    def double(tokens: int) -> Split:
        """Babies are hoisted and giants of the mix are not, so there are about twice as many babies."""
        babies = ceil_power(isqrt(2 * tokens))
        return Split(babies, tokens // babies)

    @staticmethod
    def single(tokens: int) -> Split:
        """One rotation of K per diagonal (MOAI)."""
        return Split(tokens, 1)


# The quadratic part of a row estimate (`approx.softmax`) in columns: one column and one square a head,
# at the level of the scores.


@dataclass(frozen=True, eq=False)
class RowSquares:
    """((v . q)^2 + c) * scale of a layer, in columns: one for each group of heads. constants: (groups,
    lanes)."""

    roots: ColumnMap
    constants: Array

    @staticmethod
    def build(plan: AttentionPlan, columns: Columns) -> RowSquares | None:
        """Builds the maps; None without row estimates. columns: of x."""
        rows, (weight, shift), scale = plan.specs.rows, plan.dense[0], plan.specs.score_scale
        if rows is None:
            return None
        factor = np.sqrt(scale * len(rows.constant) / len(shift))
        matrix, bias = rows.roots(*plan.entry.fold(weight * factor, shift * factor))
        heads = Columns(columns.shape, np.arange(len(rows.constant)).reshape(-1, columns.shape.lanes))
        roots = ColumnMap.build([(matrix, columns)], bias, heads)
        return RowSquares(roots, np.array(rows.constant)[heads.index] * scale)

    def apply(self, be: Backend, inputs: Sequence[Ct], group: int) -> Ct:
        """Computes the estimate of a group's rows. inputs: x, shifted (`layout.shifted`). Two levels."""
        root = self.roots.outputs(be, inputs, group, group + 1)[0]
        return be.add_vector(be.square(root), self.constants[group])


@dataclass(frozen=True, eq=False)
class QueryKeys:
    """Queries and keys of a group, joined two by two; estimate: of its rows, if the plan has any."""

    queries: Sequence[Ct] = ()
    keys: Sequence[Ct] = ()
    estimate: Ct | None = None


class BatchAttention:
    """One attention of a batch. Build, then `attend` and `project`."""

    def __init__(self, plan: AttentionPlan, columns: Columns, scores_split: Split, mix_split: Split) -> None:
        """Builds all maps. columns: of x, context and result, by heads."""
        self.plan, self.columns, self.scores_split, self.mix_split = plan, columns, scores_split, mix_split
        sides, size, specs = (plan.query(DOUBLED), plan.key(DOUBLED)), plan.head_size, plan.specs
        value = plan.value(DOUBLED / specs.context / (1 if specs.rounds else specs.lift))
        groups = [columns.index[i : i + size] for i in range(0, columns.count, size)]
        order = _pairing(size, plan.positional)
        self.query_key = [_query_key(*sides, columns, group[order]) for group in groups]
        self.value = [_part(*value, columns, group) for group in groups]
        matrix, offset = plan.projection(specs.context * output_bound(specs.inverse))
        back = plan.output.fold_residual(len(offset))
        self.projection = ColumnMap.build([(matrix, columns), (back, columns)], offset, columns)
        self.squares = RowSquares.build(plan, columns)
        self.squared = [[_part(*side, columns, group) for group in groups] for side in plan.squared()]

    def variances(self, be: Backend, x: Cts) -> tuple[Cts, Cts]:
        """Variances of normalised queries and keys, one ciphertext each for a group of heads. 2 levels."""
        inputs = shifted(be, x, self.columns.shape.lanes)
        queries, keys = (
            tuple(variance(be, side, squares.outputs(be, inputs)) for squares in maps)
            for side, maps in zip(self.plan.normed, self.squared, strict=True)
        )
        return queries, keys

    def attend(self, be: Backend, x: Cts, mask: Ct, *roots: Cts) -> tuple[Cts, Cts]:
        """(context / bound, row means stored for the inverse): columns, and one ciphertext per group of
        heads.

        Levels below x: 2 for the scores, 3 with rotary positions, the exp's, one for a limited reach, 2 for
        each round, 1 for the mix; x is needed again 3 above that result, 2 after rounds, and the mask 2, or
        one above exponentials. A round refreshes a ciphertext and has two products of each diagonal, the
        first three. Key switches of a group at 128 tokens and 64 features without rounds: 1,430 rotations,
        160 conjugations and 424 relinearisations.
        """
        context: list[Ct] = []
        means: list[Ct] = []
        inputs, groups = shifted(be, x, self.columns.shape.lanes), range(len(self.query_key))
        sides = [self.query_keys(be, inputs, group, roots) for group in groups]
        values: list[list[Ct]] = []
        for group in groups:
            powers = self.exponentials(be, self.scores(be, sides[group], group))
            sides[group] = QueryKeys()
            for number, one in enumerate(self.plan.specs.rounds):
                powers = self._squares(be, powers, one, None if number else mask)
            values = values or self.values(be, inputs, powers)
            mixed = self.mix(be, values[group], mask, self.aligned(be, powers))
            values[group], powers = [], []
            context += mixed[:-1]
            means.append(be.add_const(mixed[-1], Argument.of(self.plan.specs.inverse).offset))
        return tuple(context), tuple(means)

    def project(self, be: Backend, x: Cts, context: Cts, means: Cts) -> Cts:
        """The stored sum of attention output and x, the residual. Levels: the inverse's and 2 below means, 2
        below context, 1 below x."""
        roots = [apply_unit(be, m, self.plan.specs.inverse) for m in means]
        return self.projection.apply(be, self.divided(be, context, roots), x)

    def divided(self, be: Backend, context: Cts, divisors: Sequence[Ct]) -> list[Ct]:
        """Multiplies the columns by the divisors of their groups. One level."""
        return [be.mul(ct, divisors[i // self.plan.head_size]) for i, ct in enumerate(context)]

    def query_keys(
        self, be: Backend, inputs: Sequence[Ct], group: int, roots: Sequence[Cts] = ()
    ) -> QueryKeys:
        """What the scores of a group are made of. All groups' come first: each matrix product reads all
        inputs, which then need not stay in memory beside scores."""
        queries, keys = list[Ct](), list[Ct]()
        size, at_once = self.plan.head_size, max(PROJECTED, len(inputs) // BESIDE // 2 * 2)
        for first in range(0, size, at_once):
            last = min(first + at_once, size)
            projections = self.query_key[group].outputs(be, inputs, 2 * first, 2 * last)
            ours, theirs = self._joined(be, projections, first // 2, [root[group] for root in roots])
            queries, keys = queries + ours, keys + theirs
        return QueryKeys(queries, keys, self.squares and self.squares.apply(be, inputs, group))

    def scores(self, be: Backend, sides: QueryKeys, group: int) -> list[list[Ct]]:
        """P[giant][baby] scaled for exp, not centred."""
        step, split = self.columns.shape.step, self.scores_split
        babies = [b * step for b in range(split.babies)]
        giants = [-g * split.babies * step for g in range(split.giants)]
        acc = None
        for part in range(0, len(sides.queries), AT_ONCE):
            left = [be.rotate_many(q, giants) for q in sides.queries[part : part + AT_ONCE]]
            right = [be.rotate_many(k, babies) for k in sides.keys[part : part + AT_ONCE]]
            acc = be.products(left, right, acc)
        scores = self._placed(be, [[doubled_real(be, s) for s in row] for row in be.relinearise(acc)], group)
        if sides.estimate is None:
            return scores
        estimates = be.rotate_many(sides.estimate, giants)  # slot t of a row: of query t - giant, too
        return [[be.sub(s, ct) for s in row] for row, ct in zip(scores, estimates, strict=True)]

    def _joined(
        self, be: Backend, projections: Cts, first: int, roots: Sequence[Ct]
    ) -> tuple[list[Ct], list[Ct]]:
        """Columns Q_0, K_0, Q_1, ... two by two, q - i q' and k + i k', which rotary positions turn. first: a
        pair of its head."""
        queries, keys = joined(be, projections[0::2], -1), joined(be, projections[1::2])
        if roots:
            ours, theirs = self._betas()
            queries = completed(be, queries, roots[0], ours[first : first + len(queries)])
            keys = completed(be, keys, roots[1], theirs[first : first + len(keys)])
        if self.plan.positional.rotary is None:
            return queries, keys
        phases = self.plan.positional.rotary.phases[:, first : first + len(keys)].T
        vectors = [self.columns.shape.at_tokens(row) for row in phases]
        return (
            [be.mul_vector(q, v.conj()) for q, v in zip(queries, vectors, strict=True)],
            [be.mul_vector(k, v) for k, v in zip(keys, vectors, strict=True)],
        )

    def _betas(self) -> tuple[list[complex], list[complex]]:
        order = _pairing(self.plan.head_size, self.plan.positional)
        ours, theirs = (beta[order] for beta in self.plan.betas(DOUBLED))
        return _paired(ours, -1), _paired(theirs, 1)

    def _placed(self, be: Backend, scores: list[list[Ct]], group: int) -> list[list[Ct]]:
        """Adds the bias of relative positions to the scores."""
        if self.plan.positional.added is None:
            return scores
        scale, lanes = self.plan.specs.score_scale, self.columns.shape.lanes
        table = self.plan.positional.added[group * lanes : (group + 1) * lanes] * scale
        return [
            [be.add_vector(s, self._diagonal(table, g, b)) for b, s in enumerate(row)]
            for g, row in enumerate(scores)
        ]

    def _diagonal(self, table: Array, giant: int, baby: int) -> Array:
        """(lanes or 1, queries, keys) -> slot vector in the place of P[giant][baby]."""
        shape, tokens = self.columns.shape, np.arange(self.columns.shape.tokens)
        queries, keys = tokens - giant * self.scores_split.babies, tokens + baby
        diagonal = np.broadcast_to(
            table[:, queries % shape.tokens, keys % shape.tokens].T, (len(tokens), shape.lanes)
        )
        return np.tile(diagonal[:, None, :], (1, shape.sequences, 1)).reshape(-1)

    def exponentials(self, be: Backend, scores: list[list[Ct]]) -> list[list[Ct]]:
        """Replaces each score by its lifted exponential in place, so that it is freed at once."""
        spec, visible = self.plan.specs.exp, self.plan.positional.visible
        for giant, row in enumerate(scores):
            for i, ct in enumerate(row):
                row[i] = spec.evaluate(be, ct, Argument.of(spec).scale, self.plan.specs.lift)
                if visible is not None:
                    row[i] = be.mul_vector(row[i], self._diagonal(visible[None], giant, i))
        return scores

    def _squares(
        self, be: Backend, powers: list[list[Ct]], one: Round, mask: Ct | None = None
    ) -> list[list[Ct]]:
        """Replaces each power by the square of its share of the row. mask: of exponentials, which come
        lifted; squares are masked."""
        form, split, step = Argument.of(one.inverse), self.scores_split, self.columns.shape.step
        level = min(be.level(ct) for row in powers for ct in row)
        if mask is None:
            lift, means = 1, self._row_sums(be, powers, split, form.scale)
        else:
            lift, mask = self.plan.specs.lift, be.drop_to(mask, min(be.level(mask), level + 1))
            (means,) = self._summed(be, powers, [be.mul_const(mask, form.scale / lift)], split)
        (means,) = be.bootstrap([be.add_const(means, form.offset)], ["real"])
        inverse = apply(be, means, one.inverse, 1.0 / (lift * one.room))
        inverse = be.drop_to(inverse, min(be.level(inverse), level + (mask is not None)))
        giants = be.rotate_many(inverse, [-g * split.babies * step for g in range(split.giants)])
        babies = be.rotate_many(mask, [b * step for b in range(split.babies)]) if mask else []
        for row, ct in zip(powers, giants, strict=True):
            for i, power in enumerate(row):
                row[i] = be.square(be.mul(power, be.mul(ct, babies[i]) if babies else ct))
        return powers

    def _row_sums(self, be: Backend, squares: list[list[Ct]], split: Split, factor: float) -> Ct:
        """Adds up the squares of a row, times a factor. One level."""
        sums = [reduce(be.add, row) for row in squares]
        return be.mul_const(self._fold(be, sums, split.babies * self.columns.shape.step), factor)

    def aligned(self, be: Backend, diagonals: list[list[Ct]]) -> list[list[Ct]]:
        """Diagonals in the split of the mix: others are rotated by the giant that they lack."""
        if self.scores_split == self.mix_split:
            return diagonals
        flat = [ct for row in diagonals for ct in row]
        b, step = self.mix_split.babies, self.columns.shape.step
        rows = [flat[g * b : (g + 1) * b] for g in range(self.mix_split.giants)]
        return [[be.rotate(ct, -g * b * step) for ct in row] for g, row in enumerate(rows)]

    def values(self, be: Backend, inputs: Sequence[Ct], diagonals: list[list[Ct]]) -> list[list[Ct]]:
        """Values of all groups, pair by pair, at the level of the diagonals or, if x is too low, below; one
        above where the mask is still to come."""
        level = min(be.level(ct) for row in diagonals for ct in row) + 2 - bool(self.plan.specs.rounds)
        lowered = [be.drop_to(ct, min(be.level(ct), level)) for ct in inputs]
        return [joined(be, value.outputs(be, lowered)) for value in self.value]

    def mix(self, be: Backend, values: Sequence[Ct], mask: Ct, diagonals: list[list[Ct]]) -> list[Ct]:
        """Contexts of a group's columns, then its row means."""
        columns, mixed = list(self._masked(be, values, mask)), list[Ct]()
        for first in range(0, len(columns), AT_ONCE):
            mixed += self._summed(be, diagonals, columns[first : first + AT_ONCE], self.mix_split)
        if self.plan.specs.rounds:
            factor = Argument.of(self.plan.specs.inverse).scale
            mixed.append(self._row_sums(be, diagonals, self.mix_split, factor))
        parts = [part for z in mixed[: self.plan.head_size // 2] for part in doubled_parts(be, z)]
        odd = [be.mul_int(z, 2) for z in mixed[self.plan.head_size // 2 : -1]]
        return [*parts, *odd, mixed[-1]]

    def _masked(self, be: Backend, values: Sequence[Ct], mask: Ct) -> Iterator[Ct]:
        """V * mask, pair by pair, then the mask scaled for the inverse. V alone for squares, which are
        masked."""
        if self.plan.specs.rounds:
            yield from values
            return
        keep = be.drop_to(mask, min(be.level(mask), be.level(values[0])))
        for v in values:
            yield be.mul(v, keep)
        yield be.mul_const(keep, Argument.of(self.plan.specs.inverse).scale / self.plan.specs.lift)

    def _summed(
        self, be: Backend, diagonals: list[list[Ct]], columns: Sequence[Ct], split: Split
    ) -> list[Ct]:
        """Adds up each column over the keys of a row, weighed by the diagonals. One level."""
        step = self.columns.shape.step
        turned = [be.rotate_many(v, [b * step for b in range(split.babies)]) for v in columns]
        left, right = (
            [[row[b] for row in side] for b in range(split.babies)] for side in (diagonals, turned)
        )
        sums = be.relinearise(be.products(left, right))
        return [self._fold(be, [row[i] for row in sums], split.babies * step) for i in range(len(columns))]

    def _fold(self, be: Backend, sums: list[Ct], step: int) -> Ct:
        """sum_G rot_G(sums[G]) by Horner's rule: one rotation key. step: of one giant."""
        acc = sums[-1]
        for part in reversed(sums[:-1]):
            acc = be.add(be.rotate(acc, step), part)
        return acc


def _paired(values: Array, sign: int) -> list[complex]:
    """Pairs values two by two as `layouts.rotations.joined` pairs ciphertexts: a + sign * i * b."""
    padded = np.append(values, 0.0) if len(values) % 2 else values
    return [complex(a, sign * b) for a, b in padded.reshape(-1, 2)]


def completed(be: Backend, cts: Sequence[Ct], root: Ct, betas: Sequence[complex]) -> list[Ct]:
    """Normalises cts: times the root, plus the betas. One level, a relinearisation each."""
    products = [be.mul(ct, root) for ct in cts]
    return [be.add_const(ct, beta) if beta else ct for ct, beta in zip(products, betas, strict=True)]


def variance(be: Backend, side: Side, columns: Sequence[Ct]) -> Ct:
    """Variance of the columns of a side's `squared` map, stored for its rsqrt. One level."""
    return be.add_const(dot(be, columns, columns), side.offset)


def _pairing(head_size: int, positional: Positional) -> IntArray:
    """The order in which columns are joined two by two: with rotary positions those that turn together."""
    order = np.arange(head_size)
    return order if positional.rotary is None else order.reshape(2, -1).T.reshape(-1)


def _query_key(
    query: tuple[Array, Array], key: tuple[Array, Array], src: Columns, group: IntArray
) -> ColumnMap:
    """Columns Q_0, K_0, Q_1, K_1, ... of a group of heads."""
    (wq, bq), (wk, bk) = query, key
    rows = np.stack([group, group + len(wq)], axis=1).reshape(-1, group.shape[1])
    return _part(np.concatenate([wq, wk]), np.concatenate([bq, bk]), src, rows)


def _part(weight: Array, bias: Array, src: Columns, index: IntArray) -> ColumnMap:
    return ColumnMap.build([(weight, src)], bias, Columns(src.shape, index))
