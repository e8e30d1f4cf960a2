"""Properties of LinearPlan: the split never changes the map, and its declared rotations are the ones it
uses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacita.errors import KeyMissingError
from tacita.slots import plain
from tacita.slots.linear import LinearPlan
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

SLOTS = 32
keys = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(-15, 15))


def plan_of(places, split, seed=0):
    rng = np.random.default_rng(seed)
    table = {key: rng.normal(size=8) for key in sorted(places)}
    return table, LinearPlan.from_diagonals(table, n_inputs=3, n_outputs=3, split=split)


def exact(table, xs):
    out = np.zeros((3, SLOTS))
    for (j, i, k), v in table.items():
        out[j] += np.tile(v, SLOTS // 8) * np.roll(xs[i], -k)
    return out


@settings(max_examples=60, deadline=None)
@given(
    st.sets(keys, min_size=1, max_size=20), st.sampled_from(["auto", "baby", "giant", 2, 4, 8]), st.booleans()
)
def test_every_split_is_the_same_map(places, split, horner):
    table, plan = plan_of(places, split)
    plan = plan if horner else replace(plan, horner_step=0)
    be = PlainBackend(SLOTS)
    xs = np.random.default_rng(1).normal(size=(3, SLOTS))
    got = [be.decrypt(ct) for ct in be.linear([be.encrypt(x) for x in xs], plan)]
    assert np.allclose(got, exact(table, xs))


@pytest.mark.parametrize("filled", [0.0, 2.0])  # by tables, and term by term
def test_where_real_parts_are_asked_for_they_are_those_of_the_whole_map(filled, monkeypatch):
    monkeypatch.setattr(plain, "MIN_FILLED", filled)
    rng = np.random.default_rng(3)
    table = {
        (j, i, k): rng.normal(size=(8, 2)) @ (1, 1j) for j in range(2) for i in range(2) for k in (0, 3, 9)
    }
    table[0, 1, 5] = rng.normal(size=8) + 0j  # nothing of an imaginary part counts
    whole, real = (LinearPlan.from_diagonals(table, real=real) for real in (False, True))
    xs = [rng.normal(size=SLOTS), rng.normal(size=(SLOTS, 2)) @ (1, 1j)]
    got = plain.apply_linear(xs, real)
    assert not any(map(np.iscomplexobj, got))
    assert np.allclose(got, np.real(plain.apply_linear(xs, whole)), atol=1e-12)
    sim = SimBackend(SLOTS, inject=True)
    noisy = [sim.decrypt(ct) for ct in sim.linear([sim.encrypt(x) for x in xs], real)]
    assert np.allclose(np.real(noisy), got, atol=1e-6) and np.imag(noisy).any(axis=1).all()


@pytest.mark.parametrize("split", ["baby", "giant"])
def test_a_single_sum_of_whole_vectors_needs_no_table(split, monkeypatch):
    monkeypatch.setattr(plain, "_table", None)
    rng = np.random.default_rng(4)
    table = {(0, i, 5): rng.normal(size=(SLOTS, 2)) @ (1, 1j) for i in range(3)}
    xs = rng.normal(size=(3, SLOTS))
    (got,) = plain.apply_linear(xs, LinearPlan.from_diagonals(table, split=split))
    assert np.allclose(got, sum(v * np.roll(xs[i], -5) for (_, i, _), v in table.items()), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.sets(keys, min_size=1, max_size=20), st.sampled_from(["auto", "baby", "giant", 4]))
def test_the_declared_rotations_suffice_and_are_needed(places, split):
    _, plan = plan_of(places, split)
    be = PlainBackend(SLOTS, rotations=plan.rotations)
    inputs = [be.encrypt(np.ones(SLOTS)) for _ in range(3)]
    be.linear(inputs, plan)
    for missing in plan.rotations:
        fewer = PlainBackend(SLOTS, rotations=plan.rotations - {missing})
        with pytest.raises(KeyMissingError):
            fewer.linear(inputs, plan)


@settings(max_examples=60, deadline=None)
@given(st.sets(keys, min_size=1, max_size=20))
def test_sim_and_plan_agree_on_the_key_switches(places):
    _, plan = plan_of(places, "auto")
    be = SimBackend(SLOTS)
    be.linear([be.input() for _ in range(3)], plan)
    counted = dict.fromkeys(("rotate", "rotate_hoisted"), 0)
    for (op, _, _), n in be.counts.items():
        counted[op] = counted.get(op, 0) + n
    assert counted["rotate_hoisted"] == sum(len(bs) for bs in plan.babies.values())
    assert counted["rotate"] == plan.giant_rotations + (plan.n_outputs if plan.post else 0)
    assert set(be.rotation_levels) == {k % SLOTS for k in plan.rotations}


def masks(terms=400, period=256, seed=2):
    """Terms whose vectors have few entries, evenly apart or not: nearly nothing of a dense table would be
    filled."""
    rng = np.random.default_rng(seed)
    stored = np.zeros((6, period))
    stored[:3, 8:64:8] = rng.normal(size=(3, 7))
    stored[3:, rng.choice(period, 9, replace=False)] = 1.0
    rows = np.stack([rng.integers(0, high, terms) for high in (2, 20, 3, 40, 6)], axis=1)
    return LinearPlan(3, 2, stored, np.unique(rows, axis=0).astype(np.int32))


@pytest.mark.parametrize("dtype", [float, complex])
def test_masks_are_applied_where_they_are_not_zero_and_nowhere_else(dtype, monkeypatch):
    plan = masks()
    xs = [
        np.random.default_rng(i).normal(size=1024).astype(dtype) * (1 if dtype is float else 1j)
        for i in range(3)
    ]
    want = [np.zeros(1024, dtype) for _ in range(2)]
    for j, giant, i, baby, v in plan.terms.tolist():
        want[j] += np.roll(np.tile(plan.vectors[v], 4) * np.roll(xs[i], -baby), -giant)
    assert plain._table(plan) is None  # 40 x 120 x 256 entries, nearly all of them zero
    assert np.allclose(plain.apply_linear(xs, plan), want, atol=1e-12)
    monkeypatch.setattr(plain, "MIN_FILLED", 0.0)
    plan = masks()  # a new one: the table of the old is kept with it
    assert plain._table(plan) is not None
    assert np.allclose(plain.apply_linear(xs, plan), want, atol=1e-12)


def test_a_complex_table_takes_real_vectors_as_it_takes_complex_ones(monkeypatch):
    monkeypatch.setattr(plain, "MIN_FILLED", 0.0)
    real = masks()
    rng = np.random.default_rng(1)
    vectors = real.vectors * rng.normal(size=(*real.vectors.shape, 2)).view(complex)[..., 0]
    plan = LinearPlan(real.n_inputs, real.n_outputs, vectors, real.terms)
    xs = [rng.normal(size=1024) for _ in range(real.n_inputs)]
    assert np.iscomplexobj(plain._table(plan))
    got = plain.apply_linear(xs, plan)
    assert np.iscomplexobj(got) and np.abs(np.imag(got)).max() > 0.1
    assert np.allclose(got, plain.apply_linear([x.astype(complex) for x in xs], plan), atol=1e-12)
