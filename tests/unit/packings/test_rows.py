"""Rows packing: round trips, linear layers of awkward sizes, attention maps, refusals with reasons."""

import numpy as np
import pytest

from tacita.errors import ShapeError
from tacita.layouts.rotations import doubled_parts, rotate_parts
from tacita.layouts.rows import FeatureLayout, RowsShape, linear_diagonals, restore_copies
from tacita.layouts.windows import head_windows, mask_numbers, pack_masks
from tacita.packings.rows.linear import (
    Affine,
    folded_layout,
    mask_plan,
    pack_plan,
    pair_scores,
    repeat_copies,
    residual,
    score_parts,
    turn_parts,
    unpack_anchors,
    unpack_plan,
)
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

SHAPE = RowsShape(512, 16)  # windows of 32 positions
RNG = np.random.default_rng(0)


def encrypt(be, vectors):
    return [be.encrypt(v) for v in vectors]


def decrypt(be, cts):
    return [be.decrypt(ct) for ct in cts]


@pytest.mark.parametrize("size", [1, 8, 16, 24, 32, 40, 70])
@pytest.mark.parametrize("copied", [True, False])
def test_pack_round_trip(size, copied):
    layout = FeatureLayout.dense(SHAPE, size, copied=copied)
    x = RNG.normal(size=(16, size))
    assert np.array_equal(layout.unpack(layout.pack(x)), x)


@pytest.mark.parametrize(("inputs", "outputs"), [(16, 16), (16, 64), (64, 16), (24, 40), (48, 7), (5, 32)])
@pytest.mark.parametrize("copied", [True, False])
def test_linear_layer(inputs, outputs, copied):
    src = FeatureLayout.dense(SHAPE, inputs, copied=copied)
    dst = FeatureLayout.dense(SHAPE, outputs, copied=True)
    x, w, b = RNG.normal(size=(16, inputs)), RNG.normal(size=(outputs, inputs)), RNG.normal(size=outputs)
    be = PlainBackend(512)
    out = Affine.build(w, b, src, dst).apply(be, encrypt(be, src.pack(x)))
    got = decrypt(be, restore_copies(be, out, dst))
    for slots, want in zip(got, dst.pack(x @ w.T + b), strict=True):
        assert np.allclose(slots, want)


def test_copies_halve_the_diagonals():
    w = RNG.normal(size=(16, 16))
    dst = FeatureLayout.dense(SHAPE, 16, copied=False)
    with_copies = linear_diagonals(w, FeatureLayout.dense(SHAPE, 16, copied=True), dst)
    without = linear_diagonals(w, FeatureLayout.dense(SHAPE, 16, copied=False), dst)
    assert (len(with_copies), len(without)) == (16, 31)


def test_diagonals_without_weights_are_left_out():
    """Of two ciphertexts: one weight in a block leaves one diagonal of it, none leaves none."""
    src, dst = (FeatureLayout.dense(SHAPE, size, copied=False) for size in (56, 16))
    w = np.zeros((16, 56))
    w[3, 5], w[:, 40] = 2.0, 1.0
    found = linear_diagonals(w, src, dst)
    assert found.places.tolist() == [[0, 0, 2], *([0, 1, 8 - k] for k in reversed(range(16)))]
    assert found.filled.all()
    vectors = found.turned(np.zeros(len(found), int))
    assert np.flatnonzero(vectors[0]).tolist() == [3] and vectors.sum() == w.sum()


@pytest.mark.parametrize("size", [16, 32, 40, 24, 56])
def test_residual_is_centred_and_clean(size):
    layout = FeatureLayout.dense(SHAPE, size, copied=True)
    x = RNG.normal(size=(16, size))
    be = PlainBackend(512)
    got = decrypt(be, residual(be, encrypt(be, layout.pack(x)), layout, 0.5))
    want = 0.5 * (x - x.mean(axis=1, keepdims=True))
    for slots, vector in zip(got, layout.with_copies(False).pack(want), strict=True):
        assert np.allclose(slots, vector)


@pytest.mark.parametrize(("heads", "size"), [(2, 8), (3, 8), (1, 32), (6, 16), (2, 5)])
def test_scores_land_where_the_layout_says(heads, size):
    windows = head_windows(SHAPE, heads, size)
    be = PlainBackend(512)
    half = windows[0].half
    q, k = (RNG.normal(size=(16, heads * half)) + 1j * RNG.normal(size=(16, heads * half)) for _ in range(2))
    layout = folded_layout(windows)
    for window, cq, ck in zip(windows, encrypt(be, layout.pack(q)), encrypt(be, layout.pack(k)), strict=True):
        queries, packed = doubled_parts(be, repeat_copies(be, cq, window)), []
        for keys in turn_parts(be, repeat_copies(be, ck, window, window.shifts), window):
            packed += [be.dot(queries, pair) for pair in zip(*keys, strict=True)]
        scores = decrypt(be, score_parts(be, be.linear(packed, pack_plan(window)), window))
        for n, head in enumerate(window.heads):
            part = slice(head * half, (head + 1) * half)
            want = 2 * (q[:, part] @ k[:, part].conj().T).real
            for i, j in ((0, 0), (3, 15), (15, 2), (7, 8)):
                ct, slot = window.place(n, i, j)
                assert np.isclose(scores[ct][slot], want[i, j])


@pytest.mark.parametrize(("heads", "size"), [(2, 8), (4, 8), (1, 2)])
def test_unpack_spreads_every_score_over_its_group(heads, size):
    """Two shifts in the parts of one: of one ciphertext and of two, and of a window with one shift."""
    (window,) = head_windows(SHAPE if size > 2 else RowsShape(512, 4), heads, size)
    be, half = PlainBackend(window.shape.slots), window.half
    exps = RNG.normal(size=(window.score_cts, window.shape.tokens, window.shape.window // half, half))
    paired = pair_scores(be, [be.encrypt(e.ravel()) for e in exps], window)
    anchors = [anchor for ct in paired for anchor in unpack_anchors(be, ct, window)]
    spread = [be.decrypt(ct) for ct in be.linear(anchors, unpack_plan(window))]
    for r in range(window.shifts):
        want = np.repeat(exps[r // half, :, :, r % half], half, axis=1) * window.groups
        part = spread[r % window.pairs].reshape(want.shape)
        assert np.allclose(part.imag if r >= window.pairs else part.real, want)


def test_masks_reach_the_scores_that_they_belong_to():
    windows, keep = head_windows(SHAPE, 6, 8), RNG.normal(size=16)
    be = PlainBackend(512)
    for window, number in zip(windows, mask_numbers(windows), strict=True):
        mask = be.encrypt(pack_masks(windows, keep)[number])
        masks = decrypt(be, be.linear([mask], mask_plan(window)))
        for i, j in ((0, 0), (3, 15), (15, 2), (7, 8)):
            ct, slot = window.place(0, i, j)
            assert np.isclose(masks[ct][slot], keep[j])


def test_masks_follow_the_shifts_of_the_copies():
    windows = head_windows(SHAPE, 6, 8)
    keep = (np.arange(16) < 10).astype(float)
    masks = pack_masks(windows, keep)
    assert len(masks) == len(set(mask_numbers(windows)))
    window = windows[0]
    table = masks[0].reshape(16, -1)
    for c in range(window.copies):
        assert np.array_equal(table[:, c * window.block], np.roll(keep, -c * window.shifts))


def test_attention_maps_use_few_keys():
    (window,) = head_windows(RowsShape(32768, 128), 2, 64)
    assert (window.copies, window.shifts, window.score_cts, window.shared) == (4, 32, 1, True)
    assert pack_plan(window).rotations == frozenset({1, 2, -16})
    assert pack_plan(window).giant_rotations == 23
    assert unpack_plan(window).rotations == frozenset(range(1, 8))
    be = SimBackend(32768)
    list(rotate_parts(be, be.input(), 256, 16))
    assert len(be.rotation_levels) == 4
    assert mask_plan(window).rotations == be.rotation_levels.keys()
    wide = head_windows(RowsShape(32768, 128), 12, 64)[0]
    assert (wide.shifts, wide.score_cts, wide.pairs) == (64, 2, 32)
    assert pack_plan(wide).rotations == frozenset({1, -31})
    assert (pack_plan(wide).giant_rotations, len(pack_plan(wide).terms)) == (62, 32 * 32)


@pytest.mark.parametrize(("slots", "tokens"), [(512, 12), (512, 2), (512, 1024), (64, 32)])
def test_refused_shapes(slots, tokens):
    with pytest.raises(ShapeError) as refusal:
        RowsShape(slots, tokens)
    assert refusal.value.hint


def test_heads_wider_than_a_window_are_refused():
    with pytest.raises(ShapeError, match="heads of size 48"):
        head_windows(SHAPE, 1, 48)
