"""ARION's statistical maximum on interleaved diagonals: a shift of the scores per query, made of encrypted
sums.

Diagonals as in `attention`: P[G][B] holds, at slot t, the score of query t - G with key t + B. Sums over the
keys of a query meet at slot t of sum_G rot_G(sum_B P[G][B]); the shift goes back to P[G][.] by rot_-G. With
encrypted masks (weights 1/n at the n real keys, rotated by B) the moments are those of the real keys,
whatever the padding; without, all keys count alike, as in the paper (Algorithms 2 and 3). The second moment
takes the place of the paper's sum of squares of
differences: no way back between the two sums, so 3 (giants - 1) rotations in place of 4 giants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import sqrt

from statistical_max import ShiftSpec

from tacita.slots.base import Backend, Ct

LEVELS = 2  # below the scores


@dataclass(frozen=True)
class ShiftCost:
    """Of one group of heads; products: ciphertext by ciphertext, most of them added up before
    relinearisation."""

    rotations: int
    relinearisations: int
    products: int


def shift_cost(babies: int, giants: int, masked: bool) -> ShiftCost:
    """What `statistical_shift` spends. ARION's Algorithm 3 as printed: 4 giants rotations, babies * giants
    relinearisations."""
    tokens = babies * giants
    if masked:
        return ShiftCost(3 * (giants - 1), tokens + 2 * giants + 1, 3 * tokens + 1)
    return ShiftCost(3 * (giants - 1), giants + 1, tokens + 1)


def statistical_shift(
    be: Backend,
    scores: Sequence[Sequence[Ct]],
    step: int,
    scale: float,
    spec: ShiftSpec,
    masks: Sequence[Ct] = (),
) -> list[Ct]:
    """Scores P[giant][baby] * scale -> shift * scale for each giant, to be subtracted from its diagonals.

    step: slots from one token to the next. masks: per baby, weights of the keys t + baby, one level above the
    scores at least, or none. LEVELS below the scores. Cost: `shift_cost`.
    """
    # shift * scale = mean + offset scale + f (second moment - mean^2), of scaled scores; the root r = sqrt(f)
    # mean gives both terms in the mean without a level more
    f = spec.slope / scale
    root, moment = _masked(be, scores, step, masks, f) if masks else _uniform(be, scores, step, f)
    total = be.add(be.sub(moment, be.square(root)), be.mul_const(root, 1.0 / sqrt(f)))
    shift = be.add_const(total, spec.offset * scale)
    return be.rotate_many(shift, [-giant * len(scores[0]) * step for giant in range(len(scores))])


def _masked(
    be: Backend, scores: Sequence[Sequence[Ct]], step: int, masks: Sequence[Ct], f: float
) -> tuple[Ct, Ct]:
    """(sqrt(f) mean, f second moment) by weights, at the slots of the queries. 1 and 2 levels below the
    scores."""
    giants = range(len(scores))
    square = [[be.square(ct) for ct in row] for row in scores]
    found = []
    for values, factor in ((scores, sqrt(f)), (square, f)):
        left = [[values[g][b] for g in giants] for b in range(len(masks))]
        sums = be.relinearise(be.products(left, [[be.mul_const(mask, factor)] for mask in masks]))
        found.append(_fold(be, [row[0] for row in sums], len(masks) * step))
    return found[0], found[1]


def _uniform(be: Backend, scores: Sequence[Sequence[Ct]], step: int, f: float) -> tuple[Ct, Ct]:
    """The same with weight 1 / tokens for every key."""
    stride, tokens = len(scores[0]) * step, len(scores) * len(scores[0])
    mean = _fold(be, [_total(be, row) for row in scores], stride)
    moment = _fold(be, [be.dot(row, row) for row in scores], stride)
    return be.mul_const(mean, sqrt(f) / tokens), be.mul_const(moment, f / tokens)


def _total(be: Backend, row: Sequence[Ct]) -> Ct:
    return reduce(be.add, row)


def _fold(be: Backend, sums: Sequence[Ct], stride: int) -> Ct:
    """sum_g rot_(g stride)(sums[g]) by Horner's rule: one rotation key."""
    return reduce(lambda acc, part: be.add(be.rotate(acc, stride), part), reversed(sums[:-1]), sums[-1])
