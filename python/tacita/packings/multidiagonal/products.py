"""Products of encrypted matrices on diagonals (THOR, section 4.3): C = A B for every head at once.

    L_r(C) = sum over l of rho^l(L_{r-l}(A)) * L_l(B)        (corollaries 3.8 and 3.9; algorithm 2)

A is p x k with p diagonals, B is k x n with as many diagonals as are summed over. Every L_l(B) is
*replicated* to all places of a ciphertext of its own (algorithm 4), and A is rotated to meet it: by l
tokens, and by as many diagonals as put r where it belongs. What spills into the next diagonal is the
imaginary part (`transpose.with_spill`), so a product with `straight - i wrapped` has the sum in its real
part: one relinearisation and one conjugation a ciphertext of C, where THOR has two relinearisations and a
rotation, and three masks for each product.

Diagonals whose sum r is in the next ciphertext are split off by their places where A has several ciphertexts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacita.layouts.arrays import Array
from tacita.layouts.multidiagonal import MultiDiagonal
from tacita.layouts.rotations import doubled_real
from tacita.slots.base import Backend, Ct, Cts
from tacita.slots.linear import LinearPlan

# Matrix transposition on diagonals (THOR, lemma 3.4 and appendix B.3), extended to all n diagonals
# (corollary 3.9).
#
# K^T, w x n for each head, lies in its w diagonals. A product with K on the left wants the n diagonals of K
# repeated to n columns: L'_k[t] = K[(k + t) mod n, t mod w]. That number is the k-th entry after t of
# diagonal -k mod w, so
#
#     L'_k = rho^k(L_{-k mod w}(K^T))        a turn of one diagonal within itself, by its own amount
#
# THOR transposes and then extends, at two levels; one linear map does both. The turn within a diagonal spills
# into the next one: `with_spill` makes what spilled the imaginary part, where it belongs.

Term = tuple[int, int, int, int, Array]


def with_spill(be: Backend, cts: Sequence[Ct], layout: MultiDiagonal) -> list[Ct]:
    """Adds each ciphertext, moved on by one diagonal, to itself as the imaginary part: x + i (x moved on by
    one diagonal). One rotation each, no level.

    Rotated by l tokens, entry t of a diagonal is wanted from t + l; from t + l = n on, what is there is the
    next diagonal's in the real part, and this one's in the imaginary part. So the turn within every
    diagonal is the real part of the product with `straight - i wrapped` (see `sides`). THOR masks, sums and
    rotates the two sides apart.
    """
    return [be.add(ct, be.mul_i(be.rotate(ct, -layout.diagonal))) for ct in cts]


def sides(t: Array, by: Array | int, columns: int) -> Array:
    """1/2 where token t + by is of the same diagonal, -i/2 where it spilled. The halves go when twice the
    real part is taken."""
    return np.where(t + by < columns, 0.5, -0.5j)


def steps(number: int) -> int:
    """Baby steps for so many steps (a power of two): the power of two next above the square root."""
    return 1 << -(-(number.bit_length() - 1) // 2)


def transpose(be: Backend, cts: Sequence[Ct], layout: MultiDiagonal) -> list[Ct]:
    """K^T in its layout (w x n) -> K repeated to n columns, in layout.with_rows(n). One level.

    Rotations: one a ciphertext, b - 1 hoisted a ciphertext and n_c/b an output, for the n_c diagonals of an
    output and b about their root; a conjugation an output.
    """
    target = layout.with_rows(layout.columns)
    outs = be.linear(with_spill(be, cts, layout), _plan(layout))
    turned = [be.rotate(ct, j * target.places * layout.batch) for j, ct in enumerate(outs)]
    return [doubled_real(be, ct) for ct in turned]


@lru_cache(maxsize=1)
def _plan(layout: MultiDiagonal) -> LinearPlan:
    target = layout.with_rows(layout.columns)
    terms = [term for j in range(target.count) for term in _terms(layout, target, j)]
    return LinearPlan.from_terms(terms, n_inputs=layout.count, n_outputs=target.count)


def _terms(layout: MultiDiagonal, target: MultiDiagonal, j: int) -> Iterator[Term]:
    """Output j before its last rotation: place q comes from place -q, k = first + q tokens on: q steps and
    the rest."""
    (q, t, _), first = target.coordinates, j * target.places
    step, babies = layout.batch - 2 * layout.diagonal, steps(target.places)
    for place in range(target.places):
        diagonal, baby = first + place, place % babies
        giant = (place - baby) * step
        v = np.where(q == place, sides(t, diagonal, layout.columns), 0.0)
        source = -diagonal % layout.rows // layout.places
        moved = np.roll(v, giant + first * layout.batch)
        yield j, giant % layout.slots, source, baby * step % layout.slots, moved


@dataclass(frozen=True)
class Product:
    """A product A B of encrypted matrices. left, right: layouts of A and B; C has A's.

    Two levels below B, to replicate it, and one more for the product. Tensor products: k a ciphertext of A,
    twice that where it has several. One relinearisation and one conjugation a ciphertext.
    """

    left: MultiDiagonal
    right: MultiDiagonal

    @property
    def babies(self) -> int:
        """Diagonals of B that are replicated together: V of the U V in a ciphertext."""
        return steps(self.right.places)

    @property
    def groups(self) -> int:
        """U: groups of V diagonals."""
        return self.right.places // self.babies

    @property
    def split(self) -> bool:
        """Whether sums of one ciphertext belong to two."""
        return self.left.count > 1

    def apply(self, be: Backend, a: Sequence[Ct], b: Sequence[Ct]) -> Cts:
        """Ciphertexts of A and B -> those of C."""
        sums = None
        turns = self._turned(be, with_spill(be, a, self.left))
        for j, ct in enumerate(b):
            for group, spread in enumerate(be.linear([ct], spread_plan(self, j))):
                replicas = be.linear([spread], replica_plan(self, group))
                for whole, part, turned in zip(*self._split(replicas), next(turns), strict=True):
                    left, right = self._met(be, j, turned, whole, part)
                    sums = be.products(left, right, sums)
        return tuple(doubled_real(be, row[0]) for row in be.relinearise(sums))

    def _split(self, replicas: Sequence[Ct]) -> tuple[Sequence[Ct], Sequence[Ct | None]]:
        """Replicas, and those of the places whose sums belong to the next ciphertext."""
        if not self.split:
            return replicas, [None] * len(replicas)
        return replicas[: self.babies], replicas[self.babies :]

    def _met(
        self, be: Backend, j: int, turned: Sequence[Ct], whole: Ct, part: Ct | None
    ) -> tuple[list[list[Ct]], list[list[Ct]]]:
        """Operands of `products`: rotated ciphertexts in the order of the sums that they go to, and the
        replica."""
        here, count = (
            [turned[(target - j) % self.left.count] for target in range(self.left.count)],
            len(turned),
        )
        if part is None:
            return [here], [[whole]]
        behind = [here[(target - 1) % count] for target in range(count)]
        return [here, behind], [[be.sub(whole, part)], [part]]

    def _turned(self, be: Backend, a: Sequence[Ct]) -> Iterator[list[list[Ct]]]:
        """Yields, for each ciphertext and group of B, A rotated for each of the V diagonals in it.

        Rotations of each ciphertext of A: V - 1 hoisted a group, and one for each group but the first. V +
        1 keys.
        """
        shape, places = self.left, self.right.places
        step, start = shape.batch - shape.diagonal, list(a)
        for j in range(self.right.count):
            anchors = start = [be.rotate(ct, places * shape.batch) for ct in start] if j else start
            for group in range(self.groups):
                anchors = [be.rotate(ct, self.babies * step) for ct in anchors] if group else anchors
                turned = [be.rotate_many(ct, [step * v for v in range(self.babies)]) for ct in anchors]
                yield [list(together) for together in zip(*turned, strict=True)]


@lru_cache(maxsize=16)
def spread_plan(product: Product, j: int) -> LinearPlan:
    """Ciphertext j of B -> each of its groups at the places of all groups, both sides of the spill told
    apart.

    U - 1 hoisted rotations, U^2 vectors. One level.
    """
    shape, groups, babies = product.right, product.groups, product.babies
    q, t, _ = shape.coordinates
    terms = []
    for group in range(groups):
        diagonal = j * shape.places + group * babies + q % babies
        for turn in range(groups):
            here = (q // babies + turn) % groups == group
            v = np.where(here, sides(t, diagonal, shape.columns), 0.0)
            terms.append((group, 0, 0, turn * babies * shape.diagonal, v))
    return LinearPlan.from_terms(terms, n_inputs=1, n_outputs=groups)


@lru_cache(maxsize=16)
def replica_plan(product: Product, group: int) -> LinearPlan:
    """A spread group -> each of its V diagonals at all places; then, if split, at the places below its
    number alone.

    V - 1 hoisted rotations, V^2 terms with V vectors of a short period (V^2 long ones more, if split). One
    level.
    """
    shape, babies = product.right, product.babies
    # sums pass into the next ciphertext by the places of A, of which B may have fewer and repeat them
    q, _, _ = (product.left if product.split else shape).coordinates
    q = q if product.split else q[: babies * shape.diagonal]  # which is a period of all vectors
    diagonals = {}
    for v in range(babies):
        for place in range(babies):
            turn, here = (v - place) % babies * shape.diagonal, q % babies == place
            diagonals[v, 0, turn] = here.astype(np.float64)
            if product.split:
                diagonals[babies + v, 0, turn] = (here & (q < group * babies + v)).astype(np.float64)
    outputs = babies * (2 if product.split else 1)
    return LinearPlan.from_diagonals(diagonals, n_inputs=1, n_outputs=outputs, split="baby")
