"""THOR's layout and its products: pack and unpack, dense maps, transposition, products of encrypted
matrices."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tacita.errors import PlanError, ShapeError
from tacita.layouts.multidiagonal import Features, MultiDiagonal
from tacita.layouts.registry import Shape, rules_of
from tacita.packings import executor
from tacita.packings.multidiagonal import linear
from tacita.packings.multidiagonal.linear import Affine, plan_of, residual
from tacita.packings.multidiagonal.products import Product, transpose
from tacita.plans.plan import PlacedStage
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend
from tacita.slots.stage import Stage

RNG = np.random.default_rng(0)
# (slots, tokens, heads, head size): several ciphertexts; one; room for more; heads and sizes that are padded
SHAPES = [
    (128, 16, 2, 8),
    (256, 16, 2, 8),
    (2048, 16, 2, 8),
    (256, 16, 3, 5),
    (1024, 8, 1, 4),
    (256, 16, 4, 16),
]
every_shape = pytest.mark.parametrize("sizes", SHAPES, ids=str)


def features(sizes):
    slots, tokens, heads, head_size = sizes
    return Features.hidden(slots, tokens, heads, head_size), PlainBackend(slots, 20)


def encrypt(be, layout, tensor):
    return [be.encrypt(v) for v in layout.pack(tensor)]


def decrypt(be, layout, cts):
    """What is unpacked; every other slot must be what packing it again gives: repetitions, and zeros."""
    values = [be.decrypt(ct).real for ct in cts]
    found = layout.unpack(values)
    assert all(np.allclose(v, w) for v, w in zip(values, layout.pack(found), strict=True))
    return found


def by_head(layout, tensor):
    """(tokens, size) -> (heads, tokens, head size)."""
    return tensor.reshape(len(tensor), layout.heads, layout.width).transpose(1, 0, 2)


@every_shape
def test_pack_round_trip(sizes):
    layout, _ = features(sizes)
    x = RNG.normal(size=(layout.shape.columns, layout.size))
    assert np.array_equal(layout.unpack(layout.pack(x)), x)
    assert len(layout.pack(x)) == layout.count


def test_a_diagonal_lies_where_the_paper_says():
    """Equation (7): slot (q n + t) H + z of ciphertext j is entry t of diagonal c j + q of head z."""
    layout = Features.hidden(128, 16, 2, 8)
    x = RNG.normal(size=(16, 16))
    c, n, h = layout.shape.capacity, 16, 2
    for j, q, t, z in ((0, 0, 0, 0), (1, 3, 5, 1), (1, 2, 15, 0)):
        assert layout.pack(x)[j][(q * n + t) * h + z] == x[t, z * 8 + (c * j + q + t) % 8]


@every_shape
@pytest.mark.parametrize("outputs", ["hidden", "stacked", "inner"])
def test_dense_maps_there_and_back(sizes, outputs):
    layout, be = features(sizes)
    wide = {"hidden": layout, "stacked": layout.stacked(2), "inner": layout.inner(3 * layout.size + 1)}[
        outputs
    ]
    x = RNG.normal(size=(layout.shape.columns, layout.size))
    up, bias = RNG.normal(size=(wide.size, layout.size)), RNG.normal(size=wide.size)
    y = Affine(up, bias, layout, wide).apply(be, encrypt(be, layout, x))
    assert np.allclose(decrypt(be, wide, y), x @ up.T + bias)
    z = Affine(up.T, np.zeros(layout.size), wide, layout).apply(be, y)
    assert np.allclose(decrypt(be, layout, z), (x @ up.T + bias) @ up)
    assert be.level(y[0]) == 19


def slot_by_slot(affine, output, operand, turn, moved, giant):
    """The vector by which an operand is multiplied, its diagonals turned and its heads moved, before
    `giant`."""
    shape, weight = affine.src.shape, np.pad(affine.weight, ((0, 1), (0, 1)))
    _, _, z = shape.coordinates
    inside, total = (z + moved >= 0) & (z + moved < shape.batch), np.zeros(shape.period, complex)
    parts = [(operand, turn, 0.5), (affine.operands + operand, turn, -0.5j)]
    if affine.src.count == 1:
        parts = [(0, turn, 0.5), (0, turn + affine.turns, -0.5j)] if affine.halved else [(0, turn, 1.0)]
    for ct, by, factor in parts:
        if ct < affine.src.count:
            brought = np.roll(affine.src.index[ct], -(by * shape.diagonal + moved))
            total += factor * weight[affine.dst.index[output], np.where(inside, brought, -1)]
    return np.roll(total, giant * shape.diagonal)


@pytest.mark.parametrize("sizes", [*SHAPES, (8, 4, 2, 1), (64, 16, 2, 4)], ids=str)
@pytest.mark.parametrize("times", [1, 3])
def test_vectors_are_those_made_slot_by_slot(sizes, times):
    """Exactly, though they are put together from diagonals of the weights."""
    layout = Features.hidden(*sizes)
    src, dst = layout.inner(times * layout.size), layout.stacked(2)
    affine = Affine(RNG.normal(size=(dst.size, src.size)), np.zeros(dst.size), src, dst)
    for output, giant in product(range(dst.count), range(0, affine.turns, affine.babies)):
        plan = plan_of(affine, output, giant)
        for _, _, source, _, v in plan.terms.tolist():
            rest, move = divmod(source, len(affine.moves))
            operand, baby = divmod(rest, affine.babies)
            wanted = slot_by_slot(affine, output, operand, giant + baby, affine.moves[move], giant)
            assert np.array_equal(plan.vectors[v], wanted)
            assert np.isrealobj(plan.vectors) == (sizes == (8, 4, 2, 1) and times == 1)


def mapped(affine, name):
    return Stage(name, lambda be, live: {"x": live["x"], "y": affine.apply(be, live["x"])})


def test_texts_that_run_together_make_each_map_once(monkeypatch):
    """Two stages fit the cache of plans each by itself, but not together."""
    layout, _ = features((256, 16, 2, 8))
    wide, made, original = layout.stacked(12), [], linear.vectors_of
    affines = [Affine(RNG.normal(size=(wide.size, 16)), np.zeros(wide.size), layout, wide) for _ in "ab"]
    monkeypatch.setattr(linear, "vectors_of", lambda *given: made.append(given) or original(*given))
    steps = [PlacedStage(name, (), (), {"x": 1}, {"x": 1, "y": 0}, {}) for name in "ab"]
    backends = [PlainBackend(256, 1) for _ in range(3)]
    requests = [(be, {"x": tuple(encrypt(be, layout, RNG.normal(size=(16, 16))))}) for be in backends]
    executor.run_together(steps, [mapped(*each) for each in zip(affines, "ab", strict=True)], requests)
    plans = wide.groups * affines[0].turns // affines[0].babies
    assert len(made) == 2 * plans > linear.KEPT >= plans


def test_plaintexts_are_of_one_output_and_large_ones_are_made_anew(monkeypatch):
    """The engine encodes those of a plan together: of BERT-base's last map 0.8 GB, where all outputs of a
    group took 3.4, and as many vectors stayed as 16 plans have."""
    layout, be = features((128, 16, 2, 8))
    made, original = [], linear.vectors_of
    monkeypatch.setattr(linear, "vectors_of", lambda *given: made.append(given) or original(*given))
    x = encrypt(be, layout, RNG.normal(size=(16, 16)))
    for large, times in ((linear.LARGE, 1), (0, 2)):
        monkeypatch.setattr(linear, "LARGE", large)
        affine = Affine(RNG.normal(size=(16, 16)), np.zeros(16), layout, layout)
        first, again = (affine.apply(be, x) for _ in range(2))
        assert all(np.array_equal(a.values, b.values) for a, b in zip(first, again, strict=True))
        assert len(made) == times * layout.count * affine.turns // affine.babies > times
        assert all(len({output for output, *_ in terms}) == 1 for _, terms, _ in made)
        made.clear()


def test_counting_a_map_makes_no_vectors(monkeypatch):
    """A plan of BERT-base's shape is counted many times over, and a layer has 33,000 of them."""
    layout, plain = features((128, 16, 2, 8))
    affine = Affine(RNG.normal(size=(16, 16)), np.zeros(16), layout, layout)
    made, original = [], linear.vectors_of
    monkeypatch.setattr(linear, "vectors_of", lambda *given: made.append(given) or original(*given))
    be = SimBackend(128)
    affine.apply(be, [be.input() for _ in range(layout.count)])
    vectors = sum(n for (op, _, _), n in be.counts.items() if op == "mul_plain")
    assert not made and vectors == be.counts["encode", be.max_level, ""] > 0
    affine.apply(plain, encrypt(plain, layout, RNG.normal(size=(16, 16))))
    assert sum(len(terms) for _, terms, _ in made) == vectors


@every_shape
def test_a_residual_loses_its_mean_and_keeps_its_zeros(sizes):
    layout, be = features(sizes)
    x = RNG.normal(size=(layout.shape.columns, layout.size))
    found = residual(be, encrypt(be, layout, x), layout, 0.5, centred=True)
    assert np.allclose(decrypt(be, layout, found), 0.5 * (x - x.mean(axis=1, keepdims=True)))


@every_shape
def test_scores_and_context_are_matrix_products(sizes):
    """S^T = K Q^T from K^T and Q^T; then V^T S^T, whatever S holds."""
    layout, be = features(sizes)
    n, square = layout.shape.columns, layout.shape.with_rows(layout.shape.columns)
    q, k, v = RNG.normal(size=(3, n, layout.size))
    keys = transpose(be, encrypt(be, layout, k), layout.shape)
    scores = Product(square, layout.shape).apply(be, keys, encrypt(be, layout, q))
    wanted = np.einsum("htd,hsd->hts", by_head(layout, q), by_head(layout, k))
    place, t, z = square.coordinates
    for j, ct in enumerate(scores):
        head, key = np.minimum(z, layout.heads - 1), (square.places * j + place + t) % n
        assert np.allclose(
            be.decrypt(ct), square.tiled(np.where(z < layout.heads, wanted[head, t, key], 0.0))
        )
    context = Product(layout.shape, square).apply(be, encrypt(be, layout, v), scores)
    mixed = (wanted @ by_head(layout, v)).transpose(1, 0, 2).reshape(n, -1)
    assert np.allclose(decrypt(be, layout, context), mixed)


@pytest.mark.parametrize("sizes", [(64, 3, 8, 4), (64, 16, 8, 4), (64, 4, 32, 4), (64, 1, 1024, 1)])
def test_refused_shapes(sizes):
    with pytest.raises(ShapeError) as refusal:
        MultiDiagonal(*sizes)
    assert refusal.value.hint


def test_heads_wider_than_the_text_are_refused():
    with pytest.raises(ShapeError, match="64 features in texts of 16 tokens"):
        Features.hidden(1 << 12, 16, 2, 64)


def test_the_packing_is_known_by_name():
    assert Shape("multidiagonal", "hoisted", 1024, 16).texts == 1
    with pytest.raises(PlanError, match="multidiagonals"):
        rules_of("multidiagonals")
    with pytest.raises(PlanError, match="rotations 'double'"):
        Shape("multidiagonal", "double", 1024, 16)
