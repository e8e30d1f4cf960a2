"""Dense maps by diagonal blocks (THOR, section 4.2), and sums over features.

THOR multiplies turned inputs by plaintexts, moves each sum to its head by an internal rotation, which takes
a mask and a level, and adds. Here entries that wrap have a plaintext of their own, so there is no mask: one
level instead of two, for about twice the plaintexts. Real inputs are complexified: two of them are the
parts of one, or the halves of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import product

import numpy as np

from tacita.layouts.arrays import Array, IntArray
from tacita.layouts.multidiagonal import Features, diagonals
from tacita.layouts.rotations import doubled_real, rotate_sum
from tacita.packings.shared.linear import LIFT, Linear, TextNorm, lifted_squares
from tacita.slots.base import Backend, Ct, Cts
from tacita.slots.linear import BABY_COST, KEY_COST, LinearPlan, Recipe
from tacita.slots.stage import cached_weakly

Term = tuple[int, int, int, int]  # output, operand, diagonals turned, heads moved
KEPT = 16  # plans: a stage is simulated several times in a row, and runs once
LARGE = 1 << 25  # bytes of a plan that is not kept: a map of BERT-base has 64 to 128 of 48 to 85 MB
MAPS = 2  # whose diagonals are kept, 10 to 42 MB each of BERT-base: two threads are at two maps at most


@dataclass(frozen=True, eq=False)
class Affine:
    """A dense map between layouts on diagonals: y = x @ weight.T + bias. weight (dst.size, src.size), bias
    (dst.size,). One level.

    Plans are made when they are needed, one for each output and each giant step, because vectors are dense
    and the engine encodes those of a plan together (BERT-base: 1.5 GB a map, encoded 13 GB).
    """

    weight: Array
    bias: Array
    src: Features
    dst: Features

    @property
    def operands(self) -> int:
        """Inputs of the plan: pairs of ciphertexts, and the last one of an odd number."""
        return -(-self.src.count // 2)

    @property
    def halved(self) -> bool:
        """Whether the one input is paired with itself, turned by half its diagonals."""
        return self.src.count == 1 and self.src.shape.places > 1

    @property
    def turns(self) -> int:
        """Rotations by whole diagonals that the plan combines."""
        return self.src.shape.places // (2 if self.halved else 1)

    @property
    def moves(self) -> range:
        """Places by which heads move: those that bring a head of the input to one of the output."""
        return range(1 - self.dst.heads, self.src.heads)

    @cached_property
    def babies(self) -> int:
        """Turns that act on inputs (a power of two), of least cost: the rest act on outputs."""

        def cost(babies: int) -> float:
            hoisted = len(self.moves) * babies * (BABY_COST * self.operands + KEY_COST)
            return hoisted + self.dst.count * (self.turns // babies - 1)

        return min((1 << bit for bit in range(self.turns.bit_length())), key=cost)

    def apply(self, be: Backend, x: Sequence[Ct]) -> Cts:
        """Ciphertexts of src -> ciphertexts of dst.

        Key switches: operands * (h b - 1) hoisted, and outputs * (turns / b - 1), for h moves of heads and b
        babies; one conjugation an output.
        """
        step = self.src.shape.diagonal
        steps = [turn * step + head for turn in range(self.babies) for head in self.moves]
        turned = [ct for operand in self._complexified(be, x) for ct in be.rotate_many(operand, steps)]
        out = [self._output(be, turned, number) for number in range(self.dst.count)]
        out = out if self.src.count == 1 and not self.halved else [doubled_real(be, y) for y in out]
        return tuple(be.add_vector(ct, b) for ct, b in zip(out, self.dst.vectors(self.bias), strict=True))

    def _output(self, be: Backend, turned: Sequence[Ct], number: int) -> Ct:
        """An output by Horner's rule: few plaintexts at once, and one key turns all."""
        step, total = self.babies * self.src.shape.diagonal, None
        for giant in reversed(range(0, self.turns, self.babies)):
            (inner,) = be.linear(turned, plan_of(self, number, giant))
            total = inner if total is None else be.add(be.rotate(total, step), inner)
        return total

    def _complexified(self, be: Backend, x: Sequence[Ct]) -> list[Ct]:
        shape = self.src.shape
        if self.halved:
            return [be.add(x[0], be.mul_i(be.rotate(x[0], self.turns * shape.diagonal)))]
        half = len(x) - self.operands
        return [be.add(a, be.mul_i(b)) for a, b in zip(x[:half], x[self.operands :], strict=True)] + list(
            x[half : self.operands]
        )


def stacked(parts: Sequence[tuple[Array, Array]], src: Features, dst: Features) -> Affine:
    """Several maps of one input, each into groups of its own."""
    size = dst.groups * dst.heads * dst.width
    padded = [np.pad(w, ((0, size - dst.size), (0, 0))) for w, _ in parts]
    bias = [np.pad(b, (0, size - dst.size)) for _, b in parts]
    all_groups = replace(dst, size=size).stacked(len(parts))
    return Affine(np.concatenate(padded), np.concatenate(bias), src, all_groups)


def plan_of(affine: Affine, output: int, giant: int) -> LinearPlan:
    """Plans the products of one baby-step/giant-step group of an output, without a rotation: the operands
    come rotated by the baby steps, and the caller rotates the output by `giant` diagonals.

    An example, a 2 x 2 matrix W on one head, at the first token: y = (w00, w11) x + (w01, w10) (x rotated by
    one diagonal). With two babies one group has both terms, and reads x as it is and rotated. With one baby
    the second term is the group of giant 1: it reads x as it is, its vector is rotated back, (w10, w01), and
    what it leaves is rotated by one diagonal."""
    nbytes = 16 * affine.operands * affine.babies * len(affine.moves) * affine.src.shape.period
    return (_planned if nbytes <= LARGE else _planned.__wrapped__)(affine, output, giant)


@lru_cache(maxsize=KEPT)
def _planned(affine: Affine, output: int, giant: int) -> LinearPlan:
    terms = list(_terms(affine, output, giant))
    _, operand, turn, head = np.array(terms).T
    table = np.zeros((len(terms), 5), np.int32)  # operands in the order of `Affine.apply`
    table[:, 2] = (operand * affine.babies + turn - giant) * len(affine.moves) + head - affine.moves.start
    table[:, 4] = np.arange(len(terms))
    inputs = affine.operands * affine.babies * len(affine.moves)
    shape = len(terms), affine.src.shape.period
    return LinearPlan(inputs, 1, Recipe(shape, lambda: vectors_of(affine, terms, giant)), table)


def _terms(affine: Affine, output: int, giant: int) -> Iterator[Term]:
    """Yields the terms of an output and a giant step in which a head of it meets one of the input, operand
    after operand."""
    wanted, inputs = affine.dst.matrices[output], affine.src.matrices
    for operand, turn in product(range(affine.operands), range(giant, giant + affine.babies)):
        brought = {z for ct, _, _ in _halves(affine, operand, turn) for z in inputs[ct]}
        heads = (head for head in affine.moves if wanted & {z - head for z in brought})
        yield from ((output, operand, turn, head) for head in heads)


def vectors_of(affine: Affine, terms: Sequence[Term], giant: int) -> Array:
    """The vector of each term of one output, moved as the giant wants it.

    Along the tokens of a place the rows of the output and of an input follow each other, so what the input
    brings there is one of the weights' diagonals, from the place's first row on.
    """
    shape, weights = affine.src.shape, diagonals_of(affine)
    group, first = divmod(terms[0][0], shape.count)
    real = affine.turns == shape.places and affine.src.count == 1
    spread = len(terms), shape.places, shape.columns // shape.rows, shape.rows, shape.batch
    vectors = np.zeros(spread, np.float64 if real else np.complex128)
    for factor, (numbers, cts, turns, heads) in _parts(affine, terms).items():
        side, (groups, inputs) = vectors.imag if factor.imag else vectors.real, divmod(cts, shape.count)
        for place in range(shape.places):
            row = first * shape.places + (place - giant) % shape.places
            below = inputs * shape.places + (place - giant + turns) % shape.places - row
            part = weights[group, groups, heads, below % shape.rows] * (factor.imag or factor.real)
            side[numbers, place] = np.roll(part, -row, axis=1)[:, None]
    return vectors.reshape(len(terms), -1)


def _parts(affine: Affine, terms: Sequence[Term]) -> dict[complex, IntArray]:
    """Maps a factor to the parts of terms that have it: (number of the term, ciphertext, diagonals turned,
    number of the move of heads), a column each."""
    parts: dict[complex, list[tuple[int, int, int, int]]] = {}
    for number, (_, operand, turn, head) in enumerate(terms):
        for ct, by, factor in _halves(affine, operand, turn):
            parts.setdefault(factor, []).append((number, ct, by, affine.moves.index(head)))
    return {factor: np.array(rows).T for factor, rows in parts.items()}


@cached_weakly(MAPS)
def diagonals_of(affine: Affine) -> Array:
    """Returns `layouts.multidiagonal.diagonals` of the map's weights."""
    return diagonals(affine.weight, affine.dst, affine.src, affine.moves)


def _halves(affine: Affine, operand: int, turn: int) -> list[tuple[int, int, complex]]:
    """(ciphertext, diagonals turned, factor) of the parts of an operand: Re((v - iw)(x + iy)) = vx + wy."""
    if affine.halved:
        return [(0, turn, 0.5), (0, turn + affine.turns, -0.5j)]
    if affine.src.count == 1:
        return [(0, turn, 1.0)]
    other = affine.operands + operand
    return [(operand, turn, 0.5)] + ([(other, turn, -0.5j)] if other < affine.src.count else [])


def totals(be: Backend, x: Sequence[Ct], layout: Features) -> Ct:
    """The sum over the features of each head, at all its places. log2(places) rotations, no level."""
    return rotate_sum(be, reduce(be.add, x), layout.shape.places, layout.shape.diagonal)


def over_heads(layout: Features, factor: float, *, everywhere: bool) -> LinearPlan:
    """`totals` of a tensor -> factor times the sum over heads, where features are, or everywhere. One level.

    As many outputs as there are different patterns of places without a feature: one where there are none.
    """
    batch, index = layout.shape.batch, layout.index
    patterns = [np.ones(1, bool)] if everywhere else list({row.tobytes(): row for row in index >= 0}.values())
    z, diagonals = np.arange(batch), {}
    for head in range(1 - batch, batch):
        there = np.where((z + head >= 0) & (z + head < batch), factor, 0.0)
        for j, inside in enumerate(_shortest(patterns, batch)):
            diagonals[j, 0, head] = np.tile(there, inside.size // batch) * inside
    return LinearPlan.from_diagonals(diagonals, n_inputs=1, n_outputs=len(patterns))


def _shortest(patterns: Sequence[Array], batch: int) -> list[Array]:
    """The patterns in one period, of `batch` if that will do."""
    size = max(p.size for p in patterns)
    if all(np.array_equal(p, np.resize(p[:batch], p.size)) for p in patterns):
        size = batch
    return [np.resize(p, size) for p in patterns]


# LayerNorm on diagonals (`shared.linear`): sums over the features of each head, then over heads.


@dataclass(frozen=True, eq=False)
class Norm(TextNorm[Features]):
    """A norm on diagonals. layout: of input and result."""

    def variance(self, be: Backend, x: Cts) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, in every slot. 2 levels."""
        squares = lifted_squares(be, x)
        plan = over_heads(self.layout, self.scale / LIFT**2, everywhere=True)
        (total,) = be.linear([totals(be, [squares], self.layout)], plan)
        return be.add_const(total, self.offset)


def linear_of(layout: Features) -> Linear[Features]:
    """How blocks compute on diagonals."""
    return Linear(layout, Affine, stacked, residual, Norm, layout)


def residual(be: Backend, x: Sequence[Ct], layout: Features, factor: float, *, centred: bool) -> Cts:
    """(x minus its mean over features, if centred) * factor; zero where no feature is. One level."""
    scaled = [be.mul_const(ct, factor) for ct in x]
    if not centred:
        return tuple(scaled)
    means = be.linear([totals(be, x, layout)], over_heads(layout, factor / layout.size, everywhere=False))
    patterns = list({row.tobytes(): None for row in layout.index >= 0})
    return tuple(
        be.sub(ct, means[patterns.index(row.tobytes())])
        for ct, row in zip(scaled, layout.index >= 0, strict=True)
    )
