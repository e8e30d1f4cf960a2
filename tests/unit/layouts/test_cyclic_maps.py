"""Maps of ciphertexts that repeat: their diagonals, and vectors that are made when somebody reads them."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from functools import partial

import numpy as np
import pytest
from encrypted import make_engine, toy
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.layouts import rotations, vector
from tacita.layouts.multidiagonal import Features
from tacita.layouts.registry import Shape
from tacita.layouts.vector import CyclicMap, VectorLayout
from tacita.packings.conformance import CASES, check, circuit_of, world_of
from tacita.packings.lowering import lowering_of
from tacita.resources import in_threads
from tacita.slots.diagonals import nonzero
from tacita.slots.linear import LinearPlan
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

RNG = np.random.default_rng(0)
SLOTS, TEXTS = 256, ["a fine film", "the plot is dull", "never boring , very good", "the film is bad"]
NAMES = {"rotate_hoisted": "turned", "rotate_shared": "turned"} | dict.fromkeys(
    ("encode", "encode_lifted"), "encoded"
)
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
    assert np.array_equal(table.turned(np.zeros(16, int)), wanted) and np.array_equal(table.filled, filled)
    assert table.places.tolist() == [[2, 3, k] for k in range(16)]
    assert np.array_equal(nonzero(table).turned(np.zeros(filled.sum(), int)), wanted[filled])
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
def test_sums_in_turn_are_the_same_map(layout, way, monkeypatch):
    """Each sum takes a level, in the clear and with the engine's noise."""
    eager, lazy = of_both_kinds(layout, way, monkeypatch)
    values = [RNG.normal(size=SLOTS) for _ in places(layout, way)[0]]
    for make in (partial(PlainBackend, SLOTS), partial(SimBackend, SLOTS, inject=True)):
        answers = []
        for one in (eager, lazy):
            cts = one.apply(be := make(), [be.encrypt(v) for v in values])
            assert all(be.level(ct) == be.max_level - 1 for ct in cts)
            answers.append([be.decrypt(ct) for ct in cts])
        assert np.allclose(*answers, rtol=0.0, atol=1e-7) and np.abs(answers[0]).max() > 1.0


@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("at_once", [1, 200, rotations.AT_ONCE])
def test_sums_in_turn_with_one_key_for_all_giants(real, at_once, monkeypatch):
    """Rotations are signed with holes between them, and some vectors repeat."""
    monkeypatch.setattr(rotations, "AT_ONCE", at_once)
    ks = (-20, -9, -3, 0, 1, 2, 7, 18, 30)
    table = {(j, i, k): RNG.normal(size=(16, 2)) @ (1, 1j) for j in (0, 1) for i in (0, 1) for k in ks}
    plans = [LinearPlan.from_diagonals(table, split=4, real=real, period=period) for period in (None, 16)]
    assert plans[1].horner_step == 4 and plans[1].lazy
    xs, answers = RNG.normal(size=(2, 64, 2)) @ (1, 1j), []
    for plan, apply in ((plans[0], PlainBackend.linear), *((plan, rotations.in_turn) for plan in plans)):
        be = PlainBackend(64, rotations=plan.rotations)
        answers.append([be.decrypt(ct) for ct in apply(be, [be.encrypt(x) for x in xs], plan)])
    assert all(np.allclose(answers[0], other, rtol=0.0, atol=1e-12) for other in answers[1:])


@every_layout
@both_ways
def test_counting_makes_no_vectors(layout, way, monkeypatch, parts):
    """Rotations and their keys are those of the plan at once."""
    eager, lazy = of_both_kinds(layout, way, monkeypatch)
    parts.clear()
    counts, keys = [], []
    for one in (eager, lazy):
        be = SimBackend(SLOTS)
        one.apply(be, [be.input() for _ in places(layout, way)[0]])
        found = Counter(dict.fromkeys(("turned", "encoded", "rotate"), 0))
        for (op, _, _), n in be.counts.items():
            found[NAMES.get(op, op)] += n
        counts.append([found[what] for what in ("turned", "encoded", "rotate", "conjugate")])
        keys.append(set(be.rotation_levels))
    assert counts[0] == counts[1] and counts[0][1] == lazy.map.plan.source.shape[0]
    assert keys[0] == keys[1] and not parts


def test_a_circuit_that_ends_in_one_token_is_counted_without_vectors(monkeypatch, parts):
    """But for those of the map that selects the token, which are masks; and it answers as it did."""
    monkeypatch.setattr(vector, "LARGE", 0)
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
    monkeypatch.setattr(vector, "PART", 1)
    (_, first), (_, second) = (of_both_kinds("several", "to all tokens", monkeypatch) for _ in "ab")
    x = RNG.normal(size=SLOTS)
    parts.clear()

    def apply(seed: int) -> None:
        be = SimBackend(SLOTS, inject=True, seed=seed)
        first.apply(be, [be.encrypt(x)])

    list(in_threads(apply, range(6), 2))
    rows = [(id(part.outs), part.first) for part in parts]
    assert len(rows) == len(set(rows)) == 4 * 64  # diagonals of each ciphertext
    one = weakref.ref(rotations.sums_of(first.map.plan)[0][1].vectors)
    assert one() is not None and len(parts) == 4 * 64
    be = SimBackend(SLOTS)
    second.apply(be, [be.input()])
    gc.collect()
    assert one() is None and "vectors" not in vars(first.map.plan)


@pytest.mark.native
@both_ways
def test_the_engine_encodes_a_sum_at_a_time_and_leaves_none(way, monkeypatch, tmp_path):
    """And its results are those of floats."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    params = toy("insecure_toy_n8")
    tokens, one = Features.hidden(params.slots, 16, 2, 8), VectorLayout(params.slots, 16)
    ends = ([one.index], list(tokens.index)) if way == "to all tokens" else (list(tokens.index), [one.index])
    weight, bias = RNG.normal(size=(16, 16)) / 16, RNG.normal(size=16)
    monkeypatch.setattr(vector, "LARGE", 0)
    monkeypatch.setattr(rotations, "AT_ONCE", 1)
    cyclic, sim = CyclicMap.build(weight, bias, *ends), SimBackend(params.slots, params.max_level)
    cyclic.apply(sim, [sim.input() for _ in ends[0]])
    engine, x = make_engine(params, sorted(sim.rotation_levels.items()), tmp_path), RNG.normal(size=16) / 4
    sent = [np.resize(np.where(row >= 0, x[row], 0.0), params.slots) for row in ends[0]]
    answers = cyclic.apply(engine.be, [engine.encrypt(v) for v in sent])
    repeats = 1 if way == "to all tokens" else params.slots // 8  # times that a feature is among the inputs
    wanted = [np.where(row >= 0, (repeats * weight @ x + bias)[row], 0.0) for row in ends[1]]
    for ct, values in zip(answers, wanted, strict=True):
        assert np.allclose(engine.secret.decrypt(ct), np.resize(values, params.slots), atol=1e-3)
    sums = rotations.sums_of(cyclic.map.plan)
    assert len(sums) > len(answers) and not any("vectors" in vars(plan) for *_, plan in sums)


def test_a_plan_with_recipes_has_the_same_keys_and_bootstraps(monkeypatch):
    model = make_random_checkpoint(layers=1)
    how = {"tokens": 8, "texts": TEXTS, "preset": "insecure_toy_n9"}
    plans = []
    for large in (vector.LARGE, 0):
        monkeypatch.setattr(vector, "LARGE", large)
        plans.append(api.plan(model, scheme="thor", packing="multidiagonal", **how))
    one, other = plans
    assert {step for step, _ in one.rotations} == {step for step, _ in other.rotations}
    assert [stage.kinds for stage in one.stages] == [stage.kinds for stage in other.stages]
    assert one.stages != other.stages and other.noise <= 2.0 * one.noise
