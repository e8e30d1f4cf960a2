"""The conformance suite on plain and sim; counts and noise of sim; the split of LinearPlan."""

import numpy as np
import pytest

from tacita.errors import KeyMissingError, ShapeError
from tacita.plans.prices.cost import Prices
from tacita.slots.conformance import CHECKS, Harness
from tacita.slots.counts import poly_counts
from tacita.slots.linear import LinearPlan
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

SLOTS = 64


def plain() -> Harness:
    be = PlainBackend(SLOTS)
    return Harness(be, be.encrypt, be.decrypt)


def sim() -> Harness:
    be = SimBackend(SLOTS, values=True)
    return Harness(be, be.encrypt, be.decrypt)


def noisy() -> Harness:
    be = SimBackend(SLOTS, inject=True)
    return Harness(be, be.encrypt, be.decrypt, tolerance=2e-6)


@pytest.mark.parametrize("make", [plain, sim, noisy])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(make, check):
    check(make())


def test_a_missing_rotation_key_is_named():
    be = PlainBackend(SLOTS, rotations=frozenset({1, -2}))
    ct = be.encrypt(np.arange(SLOTS))
    be.rotate(ct, -2)
    with pytest.raises(KeyMissingError, match="by 3"):
        be.rotate(ct, 3)


def test_giant_only_and_baby_only_are_chosen_where_they_are_cheapest():
    gather = {(0, i, k - i): np.eye(16)[k] for i in range(16) for k in range(16)}
    spread = {(j, 0, k): np.eye(16)[(j + k) % 16] for j in range(16) for k in range(4)}
    assert not LinearPlan.from_diagonals(gather).babies
    assert LinearPlan.from_diagonals(spread).giant_rotations == 0


def test_horner_needs_one_key_for_all_giants():
    dense = {(0, 0, k): np.ones(4) * (k + 1) for k in range(64)}
    plan = LinearPlan.from_diagonals(dense, split=8)
    assert plan.rotations == frozenset({1, 2, 3, 4, 5, 6, 7, 8})
    assert plan.giant_rotations == 7


def test_sim_counts_what_a_plan_costs():
    be = SimBackend(SLOTS)
    plan = LinearPlan.from_diagonals({(0, 0, k): np.ones(4) * (k + 1) for k in range(16)}, split=4)
    with be.stage("layer"):
        be.linear([be.input(5)], plan)
    want = {"hoist": 1, "rotate_hoisted": 3, "rotate": 3, "encode_lifted": 1, "mul_lifted": 16, "lower": 1}
    assert {op: n for (op, level, stage), n in be.counts.items() if (level, stage) == (5, "layer")} == want
    assert be.rotation_levels == {1: 5, 2: 5, 3: 5, 4: 5}


def test_a_map_that_hoists_no_rotation_stays_over_its_own_primes():
    """Where it does, its vectors are encoded over the special primes too and every output comes back from
    there, which costs more; sixteen vectors of four slots are as long as one of sixty-four."""
    diagonals = {(0, 0, k): np.ones(4) * (k + 1) for k in range(16)}
    found = {}
    for split in ("giant", "baby"):
        be = SimBackend(SLOTS)
        be.linear([be.input(5)], LinearPlan.from_diagonals(diagonals, split=split))
        found[split] = {op: n for (op, _, _), n in be.counts.items() if n}
    assert found["giant"] == {"rotate": 15, "encode": 1, "mul_plain": 16, "rescale": 1}
    assert found["baby"] == {
        "hoist": 1, "rotate_hoisted": 15, "encode_lifted": 1, "mul_lifted": 16, "lower": 1
    }  # fmt: skip
    prices = Prices.shipped(16)
    assert prices is not None
    for lifted, own in (("encode_lifted", "encode"), ("lower", "rescale")):
        assert all(prices.seconds(lifted, level) > prices.seconds(own, level) for level in range(14))


@pytest.mark.parametrize(
    ("degree", "relinearised", "added", "rescaled"),
    [(1, 0, 0, 1), (3, 2, 0, 1), (7, 4, 1, 2), (15, 7, 1, 2), (28, 8, 3, 4), (31, 10, 3, 4), (63, 15, 3, 4)],
)
def test_products_of_a_series(degree, relinearised, added, rescaled):
    """The figures of `split_costs_are_known` in `crates/ckks/src/polynomial.rs`; added are its products
    less relinearisations."""
    counts = poly_counts(degree)
    by_operation = {
        op: sum(n for (o, _), n in counts.items() if o == op) for op in ("mul", "tensor", "rescale")
    }
    assert list(by_operation.values()) == [relinearised, added, rescaled]
    assert max(below for _, below in counts) == degree.bit_length() - 1


def test_plan_refuses_mixed_periods():
    with pytest.raises(ShapeError):
        LinearPlan.from_diagonals({(0, 0, 0): np.ones(4), (0, 0, 1): np.ones(8)})


def test_noise_is_in_both_parts_and_a_bootstrap_leaves_little_beside_a_real_one():
    be = SimBackend(1 << 12, inject=True)
    x = np.linspace(-1, 1, 1 << 12)
    ct = be.encrypt(x)
    for kind, left in (("real", be.model.key_switch), ("complex", be.model.bootstrap)):
        for out, imaginary in ((ct, be.model.fresh), (be.bootstrap([ct], [kind])[0], left)):
            error = be.decrypt(out) - x
            assert error.imag.std() == pytest.approx(imaginary, rel=0.2)
        assert error.real.std() == pytest.approx(be.model.bootstrap, rel=0.2)


def test_noise_estimate_matches_injected_noise():
    be = SimBackend(1 << 12, inject=True)
    x = np.linspace(-1, 1, 1 << 12)
    ct = be.poly(be.mul_const(be.encrypt(x), 0.5), np.array([0, 1.0, 0, 0.5]))
    want = np.polynomial.chebyshev.chebval(x / 2, [0, 1.0, 0, 0.5])
    spread = np.std(be.decrypt(ct).real - want)
    assert 0.1 < spread / ct.noise < 10
