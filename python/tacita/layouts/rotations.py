"""Sums and copies by rotations, in log2 of their number, and many rotations with few keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from tacita.slots.base import Backend, Ct
from tacita.slots.diagonals import ByPlace, Diagonals, Halves
from tacita.slots.linear import LinearPlan
from tacita.slots.stage import cached_weakly


def rotate_sum(be: Backend, ct: Ct, width: int, step: int = 1) -> Ct:
    """out[j] = sum of ct[j + step*k] for 0 <= k < width (a power of two): log2(width) rotations, no level."""
    k = width // 2
    while k >= 1:
        ct = be.add(ct, be.rotate(ct, step * k))
        k //= 2
    return ct


def spread(be: Backend, ct: Ct, width: int, step: int = 1) -> Ct:
    """Repeats slots that have zeros behind them: out[j] = sum of ct[j - step*k], 0 <= k < width; no level."""
    return rotate_sum(be, ct, width, -step)


def range_radix(count: int) -> int:
    """The number of rotations that `rotate_parts` makes at a time: about sqrt(count)."""
    return 1 << (max(1, int(np.sqrt(count))) - 1).bit_length()


def rotate_parts(be: Backend, ct: Ct, step: int, count: int) -> Iterator[list[Ct]]:
    """Yields [rotate(ct, step*r) for r < count], b = `range_radix` at a time, so that few are held at once:
    babies hoisted from anchors that are chained by one key.

    Keys: step*1 .. step*(b-1) and step*b. Cost: count/b - 1 full and count*(1 - 1/b) hoisted.
    """
    radix, anchor = range_radix(count), ct
    for start in range(0, count, radix):
        anchor = anchor if start == 0 else be.rotate(anchor, step * radix)
        yield be.rotate_many(anchor, [step * r for r in range(min(radix, count - start))])


# Two real ciphertexts as the parts of one complex one: what is linear over the reals then costs half.


def joined(be: Backend, columns: Sequence[Ct], sign: int = 1) -> list[Ct]:
    """=> Pairs real ciphertexts into complex ones: a + sign * i * b for columns two by two; an odd last one
    stays real. No level, no key switch."""
    op = be.add if sign > 0 else be.sub
    pairs = zip(columns[0::2], columns[1::2], strict=False)
    return [op(a, be.mul_i(b)) for a, b in pairs] + list(columns[len(columns) - len(columns) % 2 :])


def doubled_real(be: Backend, z: Ct) -> Ct:
    """Twice the real part. No level, one conjugation."""
    return be.add(z, be.conjugate(z))


def doubled_parts(be: Backend, z: Ct) -> tuple[Ct, Ct]:
    """Twice the real and twice the imaginary part. No level, one conjugation."""
    mirrored = be.conjugate(z)
    return be.add(z, mirrored), be.mul_i(be.sub(mirrored, z))


# Real slot-linear maps at half the cost: two real operands share the two parts of one complex ciphertext.
#
# Re((v - iw)(x + iy)) = vx + wy, so ciphertexts are multiplied in pairs: half the rotations of inputs and
# half the plaintext products, for one conjugation an output. A single ciphertext is paired with itself,
# rotated. THOR uses the same identity for its products (section 4.4); here it serves any map between real
# layouts, whenever that is cheaper.

KEPT = 64  # choices, by their places


@dataclass(frozen=True, eq=False)
class RealMap:
    """A map with real diagonals on real ciphertexts. One level.

    pairs: inputs (a, b) that become a + ib; the others stay real. shift: the single input x becomes x + i
    rotate(x, shift). Neither: the plan is real and outputs are not conjugated.
    """

    plan: LinearPlan
    pairs: int = 0
    shift: int = 0

    @staticmethod
    def build(
        diagonals: Diagonals | ByPlace, *, n_inputs: int, n_outputs: int, period: int | None = None
    ) -> RealMap:
        """The cheapest form. diagonals: as for LinearPlan.from_diagonals, real; period too.

        Costs depend on places alone, so only the form that is chosen gets its vectors.
        """
        table = Diagonals.of(diagonals)
        kind = _cheapest(table.places.tobytes(), table.filled.tobytes(), n_inputs, n_outputs)
        return _form(table, kind, n_inputs, n_outputs, period)

    @property
    def cost(self) -> float:
        """The cost of the map in rotations, conjugations included."""
        extra = self.plan.n_outputs if self.pairs or self.shift else 0
        return self.plan.cost + extra + (1 if self.shift else 0)

    def apply(self, be: Backend, xs: Sequence[Ct]) -> list[Ct]:
        """Real ciphertexts -> real ciphertexts."""
        if self.shift:
            xs = [be.add(xs[0], be.mul_i(be.rotate(xs[0], self.shift)))]
        elif self.pairs:
            firsts, seconds, rest = xs[: self.pairs], xs[self.pairs :], xs[2 * self.pairs :]
            xs = [*(be.add(a, be.mul_i(b)) for a, b in zip(firsts, seconds, strict=False)), *rest]
        many = self.plan.lazy or prod(self.plan.source.shape) > AT_ONCE
        apart = many and all(self.plan.giants.values())
        outs = in_turn(be, xs, self.plan) if apart else be.linear(xs, self.plan)
        return [doubled_real(be, y) for y in outs] if self.shift or self.pairs else outs


# A plan of many vectors is applied some sums after others, one for each output and giant: the engine encodes
# those of a plan together. Babies act first, once for all sums, and giants on what is there of an output.

AT_ONCE = 1 << 22  # numbers of vectors, 64 MB, for the engine: fewer, and it reads babies more often


def in_turn(be: Backend, xs: Sequence[Ct], plan: LinearPlan) -> list[Ct]:
    """Applies a plan of which every output has a term, some sums after others. One level.

    Key switches and rotation keys are those of the plan: babies are rotated as by `rotate_many`, and giants a
    level lower. Each sum is rescaled.
    """
    steps = [[k for j, k in _operands(plan) if j == i] for i in range(plan.n_inputs)]
    turned = [ct for x, ks in zip(xs, steps, strict=True) for ct in be.rotate_many(x, ks)]
    outs, above = dict[int, Ct](), dict[int, int]()
    for places, some in sums_of(plan):  # of an output from the largest giant down
        for (output, giant), inner in zip(places, be.linear(turned, some), strict=True):
            if output in outs:
                inner = be.add(_bring(be, outs[output], above[output] - giant, plan.horner_step), inner)
            outs[output], above[output] = inner, giant
    ends = (_bring(be, outs[j], above[j], plan.horner_step) for j in range(plan.n_outputs))
    return [be.rotate(ct, plan.post) if plan.post else ct for ct in ends]


def _bring(be: Backend, ct: Ct, by: int, step: int) -> Ct:
    """Rotates a sum by a difference of giants with the key of Horner's step; as it is without giants."""
    for _ in range(by // step if step else 0):
        ct = be.rotate(ct, step)
    return ct


def _operands(plan: LinearPlan) -> list[tuple[int, int]]:
    """Returns (input, baby) of each operand of the sums."""
    return [(i, k) for i in range(plan.n_inputs) for k in (0, *plan.babies.get(i, ()))]


@cached_weakly(1)
def sums_of(plan: LinearPlan) -> list[tuple[list[tuple[int, int]], LinearPlan]]:
    """Returns ([(output, giant), ...], the sums of these) in parts of `AT_ONCE`, as plans of operands that
    come rotated by the babies.

    They are kept until another plan is applied, with the vectors that somebody read: all requests in the
    clear go through a stage before any goes on.
    """
    number = {operand: n for n, operand in enumerate(_operands(plan))}
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for output, giant, i, k, vector in plan.terms.tolist():
        groups.setdefault((output, giant), []).append((number[i, k], vector))
    parts, room = list[list[tuple[int, int]]](), 0
    for place, rows in groups.items():
        room -= len(rows) * plan.period
        if room < 0:
            parts, room = [*parts, []], AT_ONCE - len(rows) * plan.period
        parts[-1].append(place)
    sums = list[tuple[list[tuple[int, int]], LinearPlan]]()
    for places in parts:
        table = np.array([(n, 0, *row, 0) for n, place in enumerate(places) for row in groups[place]])
        vectors, table[:, 4] = np.unique(table[:, 3], return_inverse=True)
        table[:, 3] = 0
        some = LinearPlan(
            len(number), len(places), plan.only(vectors), table.astype(np.int32), real=plan.real
        )
        sums.append((places, some))
    return sums


@lru_cache(maxsize=KEPT)
def _cheapest(places: bytes, filled: bytes, n_inputs: int, n_outputs: int) -> tuple[int, int]:
    """(pairs, shift) of least cost for rows that are zero or not; layers of a model have the same ones."""
    outline = Diagonals.outlined(np.frombuffer(places, np.int64).reshape(-1, 3), np.frombuffer(filled, bool))
    costs = {kind: _form(outline, kind, n_inputs, n_outputs).cost for kind in _kinds(outline, n_inputs)}
    return min(costs, key=lambda kind: costs[kind])


def _kinds(diagonals: Diagonals, n_inputs: int) -> list[tuple[int, int]]:
    """(pairs, shift) of the forms that there are."""
    if n_inputs > 1:
        return [(0, 0), (n_inputs // 2, 0)]
    rotations = diagonals.places[:, 2]
    reach = int(rotations.max() - rotations.min()) + 1
    shifts = {1 << (reach.bit_length() - 1), 1 << max(0, reach.bit_length() - 2)}
    return [(0, 0), *((0, shift) for shift in shifts)]


def _form(
    diagonals: Diagonals, kind: tuple[int, int], n_inputs: int, n_outputs: int, period: int | None = None
) -> RealMap:
    pairs, shift = kind
    table: Diagonals | Halves = diagonals
    if pairs or shift:
        table = _paired(diagonals, pairs) if pairs else _shifted(diagonals, shift)
    inputs, real = n_inputs - pairs, bool(pairs or shift)
    plan = LinearPlan.from_diagonals(table, n_inputs=inputs, n_outputs=n_outputs, real=real, period=period)
    return RealMap(plan, pairs, shift)


def _paired(diagonals: Diagonals, half: int) -> Halves:
    """Input i < half joins input i + half; the last input of an odd number keeps its own ciphertext."""
    places, inputs = diagonals.places.copy(), diagonals.places[:, 1]
    places[:, 1] = np.where(inputs >= half, inputs - half, inputs)
    return Halves.of(diagonals, places, (half <= inputs) & (inputs < 2 * half))


def _shifted(diagonals: Diagonals, shift: int) -> Halves:
    """Rotation k + shift joins rotation k, for k in every other interval of length shift from the least
    up."""
    places, rotations = diagonals.places.copy(), diagonals.places[:, 2]
    imaginary = (rotations - rotations.min()) // shift % 2 == 1
    places[:, 2] -= np.where(imaginary, shift, 0)
    return Halves.of(diagonals, places, imaginary)
