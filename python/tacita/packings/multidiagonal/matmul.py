"""Matrix products in THOR's multi-diagonal packing: plaintext-ciphertext by diagonal blocks,
ciphertext-ciphertext by lower diagonals with a delayed rotation, both with complexification and lazy
rescaling and relinearisation.

Key switches are counted in `tests/unit/test_multidiagonal.py` beside THOR's formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tacita.errors import ShapeError
from tacita.packings.arrays import Array
from tacita.packings.multidiagonal.layout import MultiDiagonal, rotate_inside
from tacita.slots.base import Backend, Ct
from tacita.slots.linear import LinearPlan

Term = tuple[int, int, int, int]  # output, giant, input, baby


def complexify(be: Backend, cts: Sequence[Ct]) -> list[Ct]:
    """The second half of the ciphertexts as imaginary parts of the first: half as many. Free."""
    half = len(cts) // 2
    if len(cts) % 2:
        raise ShapeError(f"complexify: {len(cts)} ciphertexts", hint="an even number is needed")
    return [be.add(a, be.mul_i(b)) for a, b in zip(cts[:half], cts[half:], strict=True)]


def block_terms(layout: MultiDiagonal, blocks: int, inputs: int) -> Iterator[tuple[Term, int, int]]:
    """(term, subslot rotation, block diagonal) of the diagonal-block product (algorithm 1).

    Babies move whole diagonals, giants move products to their block: block k of diagonal delta belongs to
    block k + delta, so blocks that wrap take another giant.
    """
    for out in range(layout.count):
        for delta in range(blocks):
            for giant in (-delta, blocks - delta) if delta else (0,):
                for j in range(inputs):
                    for turn in range(layout.capacity):
                        yield (out, giant, j, turn * layout.diagonal), turn, delta


def plain_product(weights: Array, layout: MultiDiagonal, *, is_complex: bool) -> LinearPlan:
    """Plan of C_i = sum_k A_ik B_k for square blocks: weights (blocks, blocks, n, n), B_k packed as batch
    element k.

    Complexified: inputs from `complexify`, outputs to be added to their conjugates. One level. For D blocks
    and n/c
    ciphertexts: (c - 1) inputs (hoisted) + 2 (D - 1) n/c rotations.
    """
    blocks = len(weights)
    if layout.rows != layout.columns or weights.shape[2:] != (layout.columns,) * 2 or blocks > layout.batch:
        raise ShapeError(
            f"plain product: weights {weights.shape}, layout {layout}", hint="square n x n blocks"
        )
    inputs = layout.count // 2 if is_complex else layout.count
    terms = (
        (*term, _weights_at(weights, layout, term, turn, delta, inputs if is_complex else 0))
        for term, turn, delta in block_terms(layout, blocks, inputs)
    )
    return LinearPlan.from_terms(terms, n_inputs=inputs, n_outputs=layout.count)


def _weights_at(weights: Array, layout: MultiDiagonal, term: Term, turn: int, delta: int, half: int) -> Array:
    """rho^r(U_{l-r}(A_{k+delta,k}))[t] = A[(t + r) mod n, (t + l) mod n] for the blocks that this giant
    moves."""
    out, giant, j, _ = term
    blocks, n, c = len(weights), layout.columns, layout.capacity
    q, t, k = layout.coordinates
    moved = (k < blocks) & ((k + delta >= blocks) if giant > 0 else (k + delta < blocks))
    column = np.minimum(k, blocks - 1)
    block, row = (column + delta) % blocks, (t + c * out + q) % n

    def entries(ct: int) -> Array:
        values: Array = weights[block, column, row, (c * ct + (q + turn) % c + t) % n]
        return values

    value = entries(j) if not half else 0.5 * (entries(j) - 1j * entries(j + half))
    return np.where(moved, value, 0.0)


def real_part(be: Backend, cts: Sequence[Ct]) -> list[Ct]:
    """ct + conjugate: twice the real part; one key switch each. (The 1/2 is folded into an operand.)"""
    return [be.add(ct, be.conjugate(ct)) for ct in cts]


def cipher_product(be: Backend, a: Sequence[Ct], b: Sequence[Ct], layout: MultiDiagonal) -> list[Ct]:
    """L_r(C) = sum_l rho^l(A_{(r-l) mod p}) * B_l for r < p (corollaries 3.8, 3.9; algorithm 2).

    a: p = layout.rows diagonals in multi-diagonal packing; b: replicated diagonals B_0..B_{q-1}. Cost:
    (p/c)(q - 1) rotations, hoisted; 2p/c relinearisations; p/c rotations; two levels below b, one below a.

    THOR masks products before relinearising them. Masking B instead gives the same sums from the contract's
    `dot`: four tensor products in place of one and three masks of degree-2 ciphertexts, and masks shared by
    all of a.
    """
    rotated = [_rotations(be, ct, len(b), layout) for ct in a]
    straight: list[list[tuple[Ct, Ct]]] = [[] for _ in a]
    wrapped: list[list[tuple[Ct, Ct]]] = [[] for _ in a]
    for shift, diagonal in enumerate(b):
        for sums, mask, step in _masks(layout, shift):
            masked = be.mul_vector(diagonal, mask)
            for j, turns in enumerate(rotated):
                target = (j + shift // layout.capacity + step) % len(a)
                (wrapped if sums else straight)[target].append((turns[shift], masked))
    return [_joined(be, s, w, layout) for s, w in zip(straight, wrapped, strict=True)]


def _rotations(be: Backend, ct: Ct, count: int, layout: MultiDiagonal) -> list[Ct]:
    n, c = layout.columns, layout.capacity
    return be.rotate_many(ct, [(shift - n * (shift % c)) * layout.batch for shift in range(count)])


def _masks(layout: MultiDiagonal, shift: int) -> Iterator[tuple[bool, Array, int]]:
    """(whether the entries wrapped, mask, ciphertexts ahead) of the up to four parts of a rotated
    ciphertext."""
    q, t, _ = layout.coordinates
    wraps, turn = t + shift >= layout.columns, shift % layout.capacity
    for wrapped, place in ((False, q), (True, (q + 1) % layout.capacity)):
        for ahead in (0, 1):
            mask = (wraps == wrapped) & ((place < turn) == bool(ahead))
            if mask.any():
                yield wrapped, mask.astype(np.float64), ahead


def _joined(
    be: Backend, straight: list[tuple[Ct, Ct]], wrapped: list[tuple[Ct, Ct]], layout: MultiDiagonal
) -> Ct:
    total = be.dot([x for x, _ in straight], [y for _, y in straight])
    if not wrapped:
        return total
    back = be.dot([x for x, _ in wrapped], [y for _, y in wrapped])
    return be.add(total, be.rotate(back, -layout.diagonal))


def complexified(be: Backend, a: Sequence[Ct], layout: MultiDiagonal, terms: int) -> list[Ct]:
    """A_k - i rho^{h}(A_{k-h}), h = terms/2: with B_l + i B_{l+h} half of the products remain, and the
    product's real part is the sum over all l. h must be a multiple of c. One level; two rotations a
    ciphertext."""
    half = terms // 2
    if half % layout.capacity:
        raise ShapeError(
            f"complexified: {half} is no multiple of {layout.capacity}", hint="use the real product"
        )
    moved = rotate_inside(be, a, layout, [half] * len(a))
    back = half // layout.capacity
    return [be.sub(ct, be.mul_i(moved[(j - back) % len(a)])) for j, ct in enumerate(a)]


def extend(be: Backend, k: Sequence[Ct], layout: MultiDiagonal) -> list[Ct]:
    """Diagonals of A (n x m, from `transpose`) -> all n: L'_{l+m} = rho^m(L_l) (corollary 3.9). One level."""
    times = layout.columns // layout.rows
    turned = [rotate_inside(be, k, layout, [layout.rows * i] * len(k)) for i in range(1, times)]
    return [*k, *(ct for cts in turned for ct in cts)]
