"""THOR's multi-diagonal batched packing (THOR, section 4.1), kept for comparison with rows.

H matrices A^(z) of m x n (m <= n) are stored by their lower diagonals L_l(A)[t] = A[(l + t) mod m, t],
interleaved over z and c of them to a ciphertext: slot (q*n + t)*H + z of ciphertext j holds
L_{cj+q}(A^(z))[t], c = slots / (n H).

Matrix products in this packing are in `matmul.py`. Vectors have the period of all slots, where rows have that
of a
window: a THOR layer of BERT-base stores thousands of dense plaintexts, which is one reason why rows are the
default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacita.errors import ShapeError
from tacita.packings.arrays import Array, IntArray
from tacita.packings.sizes import is_power, refuse
from tacita.slots.base import Backend, Ct
from tacita.slots.linear import LinearPlan


@dataclass(frozen=True)
class MultiDiagonal:
    """rows m and columns n of each matrix, m <= n; batch: H padded to a power of two. All powers of two."""

    slots: int
    rows: int
    columns: int
    batch: int

    def __post_init__(self) -> None:
        sizes = (self.slots, self.rows, self.columns, self.batch)
        if not all(is_power(size) for size in sizes) or self.rows > self.columns:
            raise refuse(
                "multi-diagonal", f"{self.rows} x {self.columns}, batch {self.batch}", "pad to powers of two"
            )
        if not 1 <= self.capacity <= self.rows:
            raise refuse(
                "multi-diagonal", f"{self.capacity} diagonals a ciphertext", "use another batch or ring"
            )

    @property
    def capacity(self) -> int:
        """c: diagonals per ciphertext."""
        return self.slots // (self.columns * self.batch)

    @property
    def count(self) -> int:
        """Ciphertexts."""
        return self.rows // self.capacity

    @property
    def diagonal(self) -> int:
        """Slots of one batched diagonal, n H."""
        return self.columns * self.batch

    @property
    def coordinates(self) -> tuple[IntArray, IntArray, IntArray]:
        """(q, t, z) of every slot."""
        slot = np.arange(self.slots)
        return slot // self.diagonal, slot // self.batch % self.columns, slot % self.batch

    def pack(self, matrices: Array) -> list[Array]:
        """(batch or fewer, m, n) -> slot vectors."""
        if (
            matrices.ndim != 3
            or matrices.shape[1:] != (self.rows, self.columns)
            or len(matrices) > self.batch
        ):
            raise ShapeError(
                f"pack: {matrices.shape}, layout {(self.batch, self.rows, self.columns)}", hint="pad"
            )
        padded = np.zeros((self.batch, self.rows, self.columns), dtype=matrices.dtype)
        padded[: len(matrices)] = matrices
        q, t, z = self.coordinates
        return [padded[z, (self.capacity * j + q + t) % self.rows, t] for j in range(self.count)]

    def unpack(self, vectors: Sequence[Array]) -> Array:
        """Slot vectors -> (batch, m, n)."""
        out = np.zeros((self.batch, self.rows, self.columns), dtype=np.result_type(*vectors))
        q, t, z = self.coordinates
        for j, values in enumerate(vectors):
            out[z, (self.capacity * j + q + t) % self.rows, t] = values
        return out

    def with_rows(self, rows: int) -> MultiDiagonal:
        """The same for matrices of another height."""
        return replace(self, rows=rows)


def rotate_inside(be: Backend, cts: Sequence[Ct], layout: MultiDiagonal, amounts: Sequence[int]) -> list[Ct]:
    """Internal rotation (THOR, section 4.2.1): every diagonal of ciphertext j rotated left by amounts[j]
    entries.

    One level; two rotations a ciphertext (none for amount 0).
    """
    _, t, _ = layout.coordinates
    n, terms = layout.columns, []
    for j, amount in enumerate(a % layout.columns for a in amounts):
        ahead = np.where(t + amount < n, 1.0, 0.0)
        terms += [
            (j, 0, j, amount * layout.batch, ahead),
            (j, 0, j, (amount - n) * layout.batch, 1.0 - ahead),
        ]
    return be.linear(cts, LinearPlan.from_terms(terms, n_inputs=len(cts), n_outputs=len(cts)))


def transpose(be: Backend, cts: Sequence[Ct], layout: MultiDiagonal) -> list[Ct]:
    """Lower diagonals of A^T (m x n) -> those of A (n x m): L_l(A) = rho^l(L_{m-l}(A^T)) (THOR, lemma 3.4).

    Algorithm 5: m rotations, one a diagonal, and one delayed rotation by -nH a ciphertext; 2m products; one
    level.
    """
    plan = LinearPlan.from_terms(_transpose_terms(layout), n_inputs=layout.count, n_outputs=layout.count)
    return be.linear(cts, plan)


def _transpose_terms(layout: MultiDiagonal) -> Iterator[tuple[int, int, int, int, Array]]:
    q, t, _ = layout.coordinates
    c, n, m = layout.capacity, layout.columns, layout.rows
    for diagonal in range(m):
        out, place = divmod(diagonal, c)
        source, origin = divmod((m - diagonal) % m, c)
        baby = ((origin - place) * n + diagonal) * layout.batch
        here = q == place
        yield out, 0, source, baby, np.where(here & (t + diagonal < n), 1.0, 0.0)
        # entries that wrap lie one diagonal further; they are moved back together, after the sum
        before = (q == (place - 1) % c) & (t + diagonal >= n)
        yield out, -layout.diagonal, source, baby, np.where(before, 1.0, 0.0)


def replicate(be: Backend, cts: Sequence[Ct], layout: MultiDiagonal) -> list[Ct]:
    """c diagonals a ciphertext -> one diagonal a ciphertext, c copies of it (algorithm 4). Two levels.

    m products and m/2 (log2 c + 1) rotations for m diagonals.
    """
    q, _, _ = layout.coordinates
    pair, even = q // 2, np.where(q % 2 == 0, 1.0, 0.0)
    out: list[Ct] = []
    for ct in cts:
        for k in range(layout.capacity // 2):
            two = be.mul_vector(ct, np.where(pair == k, 1.0, 0.0))
            step = 2 * layout.diagonal
            while step < layout.slots:
                two = be.add(two, be.rotate(two, -step))
                step *= 2
            first = be.mul_vector(two, even)
            out += [_doubled(be, ct, layout) for ct in (first, be.sub(two, first))]
    return out or list(cts)


def _doubled(be: Backend, ct: Ct, layout: MultiDiagonal) -> Ct:
    return be.add(ct, be.rotate(ct, -layout.diagonal))
