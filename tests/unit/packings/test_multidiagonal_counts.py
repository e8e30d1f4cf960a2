"""Operation counts of THOR's packing beside its formulas (Tables 2 and 4, appendices B.1 to B.3), at
BERT-base's size.

The paper's numbers are those of its complexified products; a hoisted rotation counts as a rotation here, as
there. Where ours are larger and why: `docs/decisions/0017-multidiagonal.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from math import log2

import numpy as np
import pytest

from tacita.layouts.multidiagonal import Features
from tacita.layouts.registry import Shape
from tacita.packings.conformance import CASES, circuit_of, world_of
from tacita.packings.lowering import lowering_of
from tacita.packings.multidiagonal.linear import Affine, over_heads, totals
from tacita.packings.multidiagonal.products import Product, transpose
from tacita.slots.sim import SimBackend

SLOTS, TOP = 1 << 15, 30
LAYOUT = Features.hidden(SLOTS, 128, 12, 64)
SQUARE = LAYOUT.shape.with_rows(128)
N, W, H, C = 128, 64, 16, 16  # tokens, features of a head, places for heads, diagonals a ciphertext
P, R = W // C, N // C  # ciphertexts of a tensor and of the scores
V = U = 4  # diagonals that are replicated together, and groups of them
TURNS = ("rotate", "rotate_shared", "rotate_hoisted")


def counted(run, *inputs: int, slots: int = SLOTS) -> tuple[Counter[str], int]:
    """(operations, levels used). inputs: ciphertexts of each operand."""
    be, found = SimBackend(slots, TOP), Counter[str]()
    out = run(be, *([be.input() for _ in range(count)] for count in inputs))
    for (op, _, _), count in be.counts.items():
        found[op] += count
    return found, TOP - min(be.level(ct) for ct in out)


def turns(found: Counter[str]) -> int:
    return sum(found[op] for op in TURNS)


def test_sizes_are_those_of_the_paper():
    assert (LAYOUT.shape.batch, LAYOUT.shape.capacity, LAYOUT.count, SQUARE.count) == (H, C, P, R)


def test_transposition():
    """Appendix B.3: n + n/c rotations and 2n products for n diagonals; W of them here. Table 4: n/2 +
    n/2c."""
    found, levels = counted(lambda be, k: transpose(be, k, LAYOUT.shape), P)
    assert turns(found) == P + (V - 1) * P + R * (U - 1) + (R - 1) == 47 < N // 2 + N // (2 * C) == 68
    assert found["conjugate"] == R
    assert (found["mul_lifted"], levels) == (N, 1)  # and the extension to n diagonals is in it


@pytest.mark.parametrize(("left", "right", "a", "b"), [("square", "heads", R, P), ("heads", "square", P, R)])
def test_products(left: str, right: str, a: int, b: int):
    """Table 2: (mn/2c) tensor products, 2m/c relinearisations, mn/2c + m/c rotations; and n/4 (log2 c + 3)
    to replicate n diagonals (appendix B.2). m is 64 or 128 rows of C, summed over 64 or 128 diagonals.
    """
    shapes = {"square": SQUARE, "heads": LAYOUT.shape}
    found, levels = counted(Product(shapes[left], shapes[right]).apply, a, b)
    diagonals = b * C
    replicas, thor = b * (U - 1) + b * U * (V - 1), diagonals // 4 * (int(log2(C)) + 3)
    assert found["rotate_hoisted"] == replicas < thor
    assert found["rotate"] + found["rotate_shared"] == a + a * (diagonals - 1)  # once for what spills
    assert found["outer"] == 2 * a * diagonals  # THOR: a quarter, and three masks for each
    assert (found["relin"], found["conjugate"], levels) == (a, a, 3)  # THOR: twice the relinearisations


def test_scores_and_context_of_a_layer():
    """Table 4, cases 2 and 3: 460 and 492 key switches, of which 128 and 224 replicate."""
    keys, _ = counted(lambda be, k: transpose(be, k, LAYOUT.shape), P)
    scores, _ = counted(Product(SQUARE, LAYOUT.shape).apply, R, P)
    context, _ = counted(Product(LAYOUT.shape, SQUARE).apply, P, R)

    def switches(found: Counter[str]) -> int:
        return turns(found) + found["conjugate"] + found["relin"]

    assert N // (2 * C) * (N // 2 + 6) + N // 8 * (4 + 3) + N // 2 + N // (2 * C) == 460
    assert N // (4 * C) * (N + 6) + N // 4 * (4 + 3) == 492
    assert (
        switches(keys) + switches(scores) == 643
    )  # 163 of them full rotations, the rest hoisted or no rotations
    assert switches(context) == 640  # 128
    assert (keys["rotate"] + scores["rotate"], context["rotate"]) == (163, 128)


def test_dense_map():
    """Algorithm 1: c - 1 turns of each complex input and 2 (h - 1) of each output, h blocks; here heads move
    first and diagonals last.

    Six heads of 16 features, 32 tokens, 2^11 slots: c = 8 diagonals, two ciphertexts. THOR: 7 turns of one
    complex input, 2 * 5 of two outputs, two conjugations, at two levels: 29.
    """
    layout, rng = Features.hidden(1 << 11, 32, 6, 16), np.random.default_rng(0)
    affine = Affine(rng.normal(size=(96, 96)), np.zeros(96), layout, layout)
    assert (layout.shape.capacity, layout.count, affine.operands) == (8, 2, 1)
    found, levels = counted(affine.apply, 2, slots=1 << 11)
    assert found["rotate_shared"] == 11 - 1  # heads moved by -5 to 5
    assert found["rotate"] == 2 * (8 - 1)
    assert turns(found) + found["conjugate"] == 26
    assert (found["conjugate"], levels) == (2, 1)
    assert (
        found["mul_plain"] == found["encode"] == (2 * 6 - 1) * 8 * 2
    )  # THOR: 6 * 8 * 2, without the wrapped


def test_sums_over_features():
    """log2 c rotations, and a map over the places of heads that replaces 2 log2 H rotations and a level's
    mask."""
    plan = over_heads(LAYOUT, 1.0, everywhere=False)
    found, levels = counted(lambda be, x: be.linear([totals(be, x, LAYOUT)], plan), P)
    assert (
        found["rotate"] == log2(C) + plan.giant_rotations + 1
    )  # the last one makes Horner's rule start at 0
    assert (turns(found), levels) == (14, 1)


BLOCKS = {
    "attention.scores": (49, 32, 75),
    "attention.exp": (10, 12, 0),
    "attention.mix": (46, 19, 36),
    "attention.invert": (9, 8, 0),  # one keeps its result real
    "attention.project": (18, 1, 20),
    "norm1.variance": (10, 1, 0),
    "norm1": (6, 7, 0),
    "feed_forward.expand": (14, 0, 40),
    "feed_forward.activate": (12, 14, 0),
    "feed_forward.contract": (21, 0, 48),
    "norm2.variance": (10, 1, 0),
    "norm2": (8, 8, 0),
    "mean": (13, 1, 16),
    "answer": (6, 0, 1),
}


def test_blocks_of_a_little_model():
    """A snapshot by stage of the suite's averaged model, 24 features in three heads: (key switches,
    products of two ciphertexts, encoded vectors)."""
    assert little_blocks() == BLOCKS


def test_a_round_of_softmax():
    """Three stages more: a product of each ciphertext of exponentials with the mask and a sum of them, the
    inverse, of the fewest levels with the second, its real part by a conjugation, and three products of each;
    V and the sums are not masked again."""
    found = little_blocks(rounds=1)
    own = {name: found.pop(name) for name in found.keys() - BLOCKS.keys()}
    assert own == {
        "attention.sums1": (4, 2, 0),
        "attention.inverse1": (3, 2, 0),
        "attention.squares1": (6, 6, 0),
    }
    assert (found["attention.mix"], found["attention.scores"]) == ((44, 16, 36), BLOCKS["attention.scores"])
    assert {name for name, counts in found.items() if counts != BLOCKS[name]} <= {
        "attention.exp",
        "attention.mix",
        "attention.invert",
    }


def little_blocks(*, rounds: int = 0) -> dict[str, tuple[int, int, int]]:
    case = next(
        case for case in CASES if case.name == "norms after, averaged, classified" and case.heads == 3
    )
    world = world_of(case, 16)
    build = partial(lowering_of, shape=Shape("multidiagonal", "hoisted", 512, 16))
    circuit = circuit_of(world, build, rounds=rounds)
    be = SimBackend(512, 400)
    live = {name: tuple(be.input() for _ in range(n)) for name, n in circuit.request.counts.items()}
    for stage in circuit.stages:
        with be.stage(stage.name):
            live = stage.run(be, dict(live))
    return {stage.name: by_stage(be.counts, stage.name) for stage in circuit.stages}


def by_stage(counts: Mapping[tuple[str, int, str], int], name: str) -> tuple[int, int, int]:
    kinds = ((*TURNS, "conjugate", "relin", "mul"), ("mul", "tensor", "outer"), ("encode", "encode_lifted"))
    return tuple(sum(n for (op, _, at), n in counts.items() if at == name and op in ops) for ops in kinds)
