"""Maps of ciphertexts that repeat: their diagonals, and vectors that are made when somebody reads them."""

from __future__ import annotations

import gc
import weakref
from dataclasses import fields
from functools import partial

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.layouts import rotations, vector
from tacita.layouts.multidiagonal import Features
from tacita.layouts.registry import Shape
from tacita.layouts.vector import CyclicMap, VectorLayout
from tacita.packings.conformance import CASES, check, circuit_of, world_of
from tacita.packings.lowering import lowering_of
from tacita.resources import in_threads
from tacita.slots import plain
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

RNG = np.random.default_rng(0)
SLOTS, TEXTS = 256, ["a fine film", "the plot is dull", "never boring , very good", "the film is bad"]
LAYOUTS = {"one ciphertext": (SLOTS, 16, 3, 5), "several": (SLOTS, 16, 4, 16)}  # tokens, heads, head size
both_ways = pytest.mark.parametrize("way", ["to all tokens", "from all tokens"])
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def places(layout: str, way: str):
    """Features at each position of the source's ciphertexts, and of the target's."""
    tokens = Features.hidden(*LAYOUTS[layout])
    one, all_tokens = [VectorLayout(SLOTS, tokens.size).index], list(tokens.index)
    return (one, all_tokens) if way == "to all tokens" else (all_tokens, one)


def of_both_kinds(layout: str, way: str, monkeypatch):
    """The same map with its vectors, and with a recipe."""
    size = Features.hidden(*LAYOUTS[layout]).size
    given = RNG.normal(size=(size, size)), RNG.normal(size=size), *places(layout, way)
    eager = CyclicMap.build(*given)
    with monkeypatch.context() as patch:
        patch.setattr(vector, "LARGE", 0)
        lazy = CyclicMap.build(*given)
    assert lazy.map.plan.lazy and not eager.map.plan.lazy
    return eager, lazy


@pytest.fixture
def parts(monkeypatch):
    """Parts of tables whose diagonals were made, in this order."""
    seen, original = [], vector.Turns.vectors
    monkeypatch.setattr(
        vector.Turns, "vectors", property(lambda self: seen.append(self) or original.fget(self))
    )
    return seen


@pytest.mark.parametrize(("height", "width"), [(16, 16), (16, 64), (64, 16)])
@pytest.mark.parametrize("part", [1, 1 << 24])  # bytes
@pytest.mark.parametrize("share", [1.0, 0.0])
def test_diagonals_are_those_of_the_matrix(height, width, part, share, monkeypatch):
    """Exactly, in one part or in many; of a single weight few of them are not zero."""
    monkeypatch.setattr(vector, "PART", part)
    outs, ins = 5 * np.arange(height) % 12 - 1, 3 * np.arange(width) % 14 - 1
    weight = np.zeros((12, 14))
    weight[:-1, :-1] = RNG.normal(size=(11, 13)) * (RNG.random((11, 13)) < share)
    weight[4, 7] = 0.5
    table = vector._turns(weight, outs, ins, 2, 3)
    position = np.arange(max(height, width))
    wanted = np.array([weight[outs[position % height], ins[(position + k) % width]] for k in range(16)])
    filled = wanted.any(axis=1)
    assert np.array_equal(table.vectors, wanted) and np.array_equal(table.filled, filled)
    assert table.places.tolist() == [[2, 3, k] for k in range(16)]
    assert np.array_equal(table.nonzero().vectors, wanted[filled])
    assert filled.all() == (share == 1.0)


@every_layout
@both_ways
def test_a_recipe_has_the_same_vectors_and_the_same_plan(layout, way, monkeypatch):
    eager, lazy = of_both_kinds(layout, way, monkeypatch)
    one, other = eager.map.plan, lazy.map.plan
    assert (eager.map.pairs, eager.map.shift, eager.folds) == (lazy.map.pairs, lazy.map.shift, lazy.folds)
    assert np.array_equal(one.terms, other.terms) and one.source.shape == other.source.shape
    assert np.array_equal(one.vectors, other.vectors) and one.vectors.dtype == other.vectors.dtype
    assert (one.horner_step, one.post, one.real) == (other.horner_step, other.post, other.real)


@every_layout
@both_ways
@pytest.mark.parametrize("most", [plain.MAX_TABLE, 0])  # by tables, and term by term
def test_a_recipe_gives_the_same_bits(layout, way, most, monkeypatch):
    monkeypatch.setattr(plain, "MAX_TABLE", most)
    eager, lazy = of_both_kinds(layout, way, monkeypatch)
    values = [np.resize(np.where(row >= 0, RNG.normal(), 0.0), SLOTS) for row in places(layout, way)[0]]
    for make in (partial(PlainBackend, SLOTS), partial(SimBackend, SLOTS, inject=True)):
        answers = []
        for one in (eager, lazy):
            be = make()
            answers.append([be.decrypt(ct) for ct in one.apply(be, [be.encrypt(v) for v in values])])
        assert np.array_equal(*answers)


@every_layout
@both_ways
def test_counting_makes_no_vectors(layout, way, monkeypatch, parts):
    eager, lazy = of_both_kinds(layout, way, monkeypatch)
    parts.clear()
    counts = []
    for one in (eager, lazy):
        be = SimBackend(SLOTS)
        one.apply(be, [be.input() for _ in places(layout, way)[0]])
        counts.append(be.counts)
    assert counts[0] == counts[1] and not parts


def test_a_circuit_that_ends_in_one_token_is_counted_without_vectors(monkeypatch, parts):
    """But for those of the map that selects the token, which are masks; and it answers as it did."""
    monkeypatch.setattr(vector, "LARGE", 0)
    monkeypatch.setattr(plain, "MAX_TABLE", 0)
    case = CASES[0]
    build = partial(lowering_of, shape=Shape("multidiagonal", "hoisted", 512, 16))
    circuit, be = circuit_of(world_of(case, 16), build), SimBackend(512, 400)
    live = {name: tuple(be.input() for _ in range(n)) for name, n in circuit.request.counts.items()}
    for stage in circuit.stages:
        live = stage.run(be, dict(live))
    assert all(np.array_equal(part.weight[:-1, :-1], np.eye(case.features)) for part in parts)
    parts.clear()
    check(case, build, PlainBackend(512, 400), 16, 0.005)
    assert any(not np.array_equal(part.weight[:-1, :-1], np.eye(case.features)) for part in parts)


def test_all_requests_of_a_stage_share_vectors_and_the_next_map_frees_them(monkeypatch, parts):
    """BERT-base has two such maps of 1.1 GB: no more than one is there at a time."""
    (_, first), (_, second) = (of_both_kinds("several", "to all tokens", monkeypatch) for _ in "ab")
    x = RNG.normal(size=SLOTS)
    parts.clear()

    def apply(seed: int) -> None:
        be = SimBackend(SLOTS, inject=True, seed=seed)
        first.apply(be, [be.encrypt(x)])

    list(in_threads(apply, range(6), 2))
    assert len(parts) == len({id(part) for part in parts}) == 4  # of the four ciphertexts, once
    vectors = weakref.ref(rotations.at_hand(first.map.plan).vectors)
    assert vectors() is not None and len(parts) == 4
    be = SimBackend(SLOTS)
    second.apply(be, [be.input()])
    gc.collect()
    assert vectors() is None and "vectors" not in vars(first.map.plan)


def test_who_reads_vectors_once_leaves_none(monkeypatch):
    """As the engine does, which encodes them."""
    _, lazy = of_both_kinds("several", "to all tokens", monkeypatch)
    plan = lazy.map.plan
    once = weakref.ref(plan.make_vectors())
    gc.collect()
    assert once() is None and "vectors" not in vars(plan)


def test_a_plan_with_recipes_is_the_same_plan(monkeypatch):
    """All that a client reads of it."""
    model = make_random_checkpoint(layers=1)
    how = {"tokens": 8, "texts": TEXTS, "preset": "insecure_toy_n9"}
    plans = []
    for large in (vector.LARGE, 0):
        monkeypatch.setattr(vector, "LARGE", large)
        plans.append(api.plan(model, scheme="thor", packing="multidiagonal", **how))
    one, other = plans
    names = {field.name for field in fields(one)} - {"salt", "model", "circuit"}  # which open a commitment
    assert all(getattr(one, name) == getattr(other, name) for name in names)
    assert one.circuit["specs"] == other.circuit["specs"]
