"""THOR's packing: its products equal matrix products, and its key switches are set beside THOR's formulas.

Where ours differ from THOR's (peers.md section 8.2 lists formulas and the authors' code):
- replication: complexified, m/4 (log2 c + 1) rotations; THOR's m/4 (log2 c + 3) separates the two parts again
  by m/2 conjugations. We multiply by the complex replicas as they are.
- the complex operand A_k - i rho^h(A_{k-h}) costs two rotations a ciphertext and the real part of the result
  one conjugation a ciphertext; THOR's formulas leave both out of the product's count.
- rotation by zero is not counted: (q - 1) rotations for q replicas instead of q.
"""

from collections import Counter

import numpy as np
import pytest

from tacita.errors import ShapeError
from tacita.packings.multidiagonal.layout import MultiDiagonal, replicate, transpose
from tacita.packings.multidiagonal.matmul import (
    block_terms,
    cipher_product,
    complexified,
    complexify,
    extend,
    plain_product,
    real_part,
)
from tacita.slots.linear import LinearPlan
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

RNG = np.random.default_rng(0)
TALL = MultiDiagonal(64, 4, 8, 4)  # four 4 x 8 matrices, two diagonals a ciphertext
SQUARE = MultiDiagonal(64, 8, 8, 4)
BE = PlainBackend(64)
# BERT-base: 128 tokens, 12 heads of 64 (padded to 16), 2^15 slots
HEADS = MultiDiagonal(1 << 15, 64, 128, 16)
BLOCKS = MultiDiagonal(1 << 15, 128, 128, 8)


def encrypt(matrices, layout):
    return [BE.encrypt(v) for v in layout.pack(matrices)]


def decrypt(cts, layout):
    return layout.unpack([BE.decrypt(ct).real for ct in cts])


def halves(cts):
    return [BE.mul_const(ct, 0.5) for ct in cts]


def test_pack_round_trip():
    a = RNG.normal(size=(4, 4, 8))
    assert np.array_equal(TALL.unpack(TALL.pack(a)), a)


def test_transpose_gives_the_lower_diagonals_of_the_transpose():
    a = RNG.normal(size=(4, 4, 8))
    q, t, z = TALL.coordinates
    for j, ct in enumerate(transpose(BE, encrypt(a, TALL), TALL)):
        assert np.allclose(BE.decrypt(ct), a[z, t % 4, (TALL.capacity * j + q + t) % 8])


def test_replication():
    a = RNG.normal(size=(4, 4, 8))
    _, t, z = TALL.coordinates
    for diagonal, ct in enumerate(replicate(BE, encrypt(a, TALL), TALL)):
        assert np.allclose(BE.decrypt(ct), a[z, (diagonal + t) % 4, t])


@pytest.mark.parametrize("is_complex", [False, True])
def test_plaintext_product(is_complex):
    w, x = RNG.normal(size=(3, 3, 8, 8)), RNG.normal(size=(3, 8, 8))
    cts = encrypt(x, SQUARE)
    out = BE.linear(
        complexify(BE, cts) if is_complex else cts, plain_product(w, SQUARE, is_complex=is_complex)
    )
    got = decrypt(real_part(BE, out) if is_complex else out, SQUARE)[:3]
    assert np.allclose(got, np.einsum("ikab,kbc->iac", w, x))


def test_context_product():
    a, b = RNG.normal(size=(4, 4, 8)), RNG.normal(size=(4, 8, 8))
    ca, cb = encrypt(a, TALL), encrypt(b, SQUARE)
    plain = cipher_product(BE, ca, replicate(BE, cb, SQUARE), TALL)
    folded = halves(complexified(BE, ca, TALL, 8))
    half = cipher_product(BE, folded, replicate(BE, complexify(BE, cb), SQUARE), TALL)
    assert np.allclose(decrypt(plain, TALL), a @ b)
    assert np.allclose(decrypt(real_part(BE, half), TALL), a @ b)


def test_score_product():
    q, k = RNG.normal(size=(2, 4, 8, 4))
    want = k @ q.transpose(0, 2, 1)
    keys = extend(BE, transpose(BE, encrypt(k.transpose(0, 2, 1), TALL), TALL), TALL)
    queries = encrypt(q.transpose(0, 2, 1), TALL)
    plain = cipher_product(BE, keys, replicate(BE, queries, TALL), SQUARE)
    folded = halves(complexified(BE, keys, SQUARE, 4))
    half = cipher_product(BE, folded, replicate(BE, complexify(BE, queries), TALL), SQUARE)
    assert np.allclose(decrypt(plain, SQUARE), want)
    assert np.allclose(decrypt(real_part(BE, half), SQUARE), want)


def key_switches(counts: Counter) -> dict[str, int]:
    totals: Counter = Counter()
    for (op, _, stage), n in counts.items():
        if op in ("rotate", "rotate_shared", "rotate_hoisted", "conjugate", "relin"):
            totals[stage] += n
    return dict(totals)


def inputs(be, count):
    return [be.input() for _ in range(count)]


def test_score_key_switches_beside_thor():
    """Case 2, BERT-base: THOR n/2c (n/2 + 6) + n/8 (log2 c + 3) + n/2 + n/2c = 460."""
    be, (n, m, c) = SimBackend(1 << 15), (128, 64, 16)
    assert (HEADS.capacity, HEADS.count) == (c, 4)
    with be.stage("transpose"):
        keys = transpose(be, inputs(be, 4), HEADS)
    with be.stage("replicate"):
        queries = replicate(be, complexify(be, inputs(be, 4)), HEADS)
    with be.stage("extend"):
        keys = extend(be, keys, HEADS)
        folded = complexified(be, keys, HEADS.with_rows(128), m)
    with be.stage("product"):
        scores = cipher_product(be, folded, queries, HEADS.with_rows(128))
    with be.stage("real"):
        real_part(be, scores)
    ours = key_switches(be.counts)
    thor = {
        "transpose": n // 2 + n // (2 * c),
        "replicate": n // 8 * (4 + 3),
        "product": n // (2 * c) * (n // 2 + 6),
    }
    assert sum(thor.values()) == 460
    assert ours["transpose"] == thor["transpose"] - 1  # diagonal 0 stays where it is
    assert ours["replicate"] == thor["replicate"] - m // 2  # no separation by conjugation
    assert ours["product"] == thor["product"] - n // c  # no rotation by zero
    assert ours["extend"] == 2 * 4 + 2 * 8
    assert ours["real"] == 8
    assert sum(ours.values()) == 451


def test_context_key_switches_beside_thor():
    """Case 3, BERT-base: THOR n/4c (n + 6) + n/4 (log2 c + 3) = 492."""
    be, (n, c) = SimBackend(1 << 15), (128, 16)
    with be.stage("replicate"):
        alphas = replicate(be, complexify(be, inputs(be, 8)), HEADS.with_rows(128))
    with be.stage("fold"):
        values = complexified(be, inputs(be, 4), HEADS, n)
    with be.stage("product"):
        context = cipher_product(be, values, alphas, HEADS)
    with be.stage("real"):
        real_part(be, context)
    ours = key_switches(be.counts)
    thor = {"replicate": n // 4 * (4 + 3), "product": n // (4 * c) * (n + 6)}
    assert sum(thor.values()) == 492
    assert ours["replicate"] == thor["replicate"] - n // 2
    assert ours["product"] == thor["product"] - 4
    assert (ours["fold"], ours["real"]) == (8, 4)
    assert sum(ours.values()) == 436


def test_plaintext_product_key_switches_beside_thor():
    """Case 1, BERT-base, Q K V from shared babies: THOR's code 60 + 120 + 12 = 192, its formula 196.

    THOR packs X for 12 (16) blocks of half size, c = 16; we pack 6 (8) square blocks, c = 32: 31 babies for
    each of 2 complex inputs where THOR has 15 for each of 4.
    """
    be, blocks = SimBackend(1 << 15), 6
    assert (BLOCKS.capacity, BLOCKS.count) == (32, 4)
    dummy = np.ones(1)
    terms = [
        (out + 4 * part, g, j, b, dummy)
        for part in range(3)
        for (out, g, j, b), _, _ in block_terms(BLOCKS, blocks, 2)
    ]
    plan = LinearPlan.from_terms(terms, n_inputs=2, n_outputs=12)
    real_part(be, be.linear(inputs(be, 2), plan))
    ours = {op: n for (op, _, _), n in be.counts.items()}
    assert ours["rotate_hoisted"] == 2 * 31
    assert ours["rotate"] == 3 * 2 * (blocks - 1) * 4 == 120
    assert ours["conjugate"] == 12
    assert key_switches(be.counts)[""] == 194


def test_products_and_relinearisations_beside_thor():
    """Table 2, complexified: mn/2c tensor products, 2m/c relinearisations, mn/2c + m/c rotations.

    Ours masks the replicas instead of the products: at most four tensor products for one product and three
    masks.
    """
    be, (n, m, c) = SimBackend(1 << 15), (128, 64, 16)
    alphas, values = inputs(be, n // 2), inputs(be, m // c)
    cipher_product(be, values, alphas, HEADS)
    ours: Counter = Counter()
    for (op, _, _), count in be.counts.items():
        ours[op] += count
    assert ours["relin"] == 2 * m // c
    assert ours["rotate"] + ours["rotate_shared"] == m * n // (2 * c) - m // c + m // c
    assert m * n // (2 * c) <= ours["tensor"] <= 4 * m * n // (2 * c)
    assert ours["mul_plain"] <= 4 * n // 2 < 3 * m * n // (2 * c)


@pytest.mark.parametrize("sizes", [(64, 8, 4, 4), (64, 3, 8, 4), (64, 4, 8, 16)])
def test_refused_shapes(sizes):
    with pytest.raises(ShapeError) as refusal:
        MultiDiagonal(*sizes)
    assert refusal.value.hint
