"""Matrix transposition on diagonals (THOR, lemma 3.4 and appendix B.3), extended to all n diagonals
(corollary 3.9).

K^T, w x n for each head, lies in its w diagonals. A product with K on the left wants the n diagonals of K
repeated to n columns: L'_k[t] = K[(k + t) mod n, t mod w]. That number is the k-th entry after t of
diagonal -k mod w, so

    L'_k = rho^k(L_{-k mod w}(K^T))        a turn of one diagonal within itself, by its own amount

THOR transposes and then extends, at two levels; one linear map does both. The turn within a diagonal spills
into the next one: `with_spill` makes what spilled the imaginary part, where it belongs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from tacita.packings.arrays import Array
from tacita.packings.multidiagonal.layout import MultiDiagonal
from tacita.packings.pairs import doubled_real
from tacita.slots.base import Backend, Ct
from tacita.slots.linear import LinearPlan

Term = tuple[int, int, int, int, Array]


def with_spill(be: Backend, cts: Sequence[Ct], layout: MultiDiagonal) -> list[Ct]:
    """x + i (x moved on by one diagonal). One rotation each, no level.

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
