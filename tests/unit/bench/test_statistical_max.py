"""ARION's statistical maximum: calibration of the line, and the encrypted form on interleaved diagonals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.tables import statistical_max
from bench.tables.statistical_max import (
    LEVELS,
    ShiftSpec,
    shift,
    shift_cost,
    spec_from_dict,
    statistical_shift,
)
from tacita.approx import FitError
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend


def samples(count=6, tokens=16, seed=3):
    """Scores (heads, queries, keys) with a prefix of real keys."""
    rng = np.random.default_rng(seed)
    for real in rng.integers(2, tokens + 1, count):
        yield rng.normal(1.0, 1.5, (2, tokens, tokens)), (np.arange(tokens) < real) * 1.0


def test_shifted_scores_stay_in_the_stated_interval_and_touch_its_top():
    spec = statistical_max.fit(samples(), (-15.0, 0.5))
    moved = [(s - shift(s, mask, spec)[..., None])[..., mask > 0.0] for s, mask in samples()]
    assert max(m.max() for m in moved) == pytest.approx(0.5)
    assert min(m.min() for m in moved) == pytest.approx(spec.scores[0])
    means = [np.exp(m).mean(axis=-1) for m in moved]
    assert (min(m.min() for m in means), max(m.max() for m in means)) == pytest.approx(spec.means)
    assert spec.scores[0] >= -15.0


def test_padding_does_not_change_a_shift():
    spec = statistical_max.fit(samples(), (-15.0, 0.5))
    (scores, _), mask = next(samples()), (np.arange(16) < 5) * 1.0
    other = np.where(mask > 0.0, scores, 77.0)
    np.testing.assert_allclose(shift(other, mask, spec), shift(scores[..., :5], np.ones(5), spec), rtol=1e-12)


def test_no_other_slope_makes_the_means_vary_less():
    def width(spec):
        return np.log(spec.means[1] / spec.means[0])

    best = width(statistical_max.fit(samples(), (-15.0, 0.0)))
    rows = statistical_max._summary(samples())
    for slope in np.linspace(0.01, 1.0, 100):
        assert width(statistical_max._measured(rows, 0.0, slope)) >= best - 1e-9
    assert best < width(statistical_max._measured(rows, 0.0, 0.0))


def test_the_papers_constants_for_128_tokens():
    spec = statistical_max.papers(samples(), 128)
    assert (spec.offset, spec.slope) == pytest.approx((2.08 * 1.25, 0.208), rel=1e-3)
    assert statistical_max.papers(samples(), 16).slope < spec.slope


def test_an_interval_that_is_too_narrow_is_refused():
    with pytest.raises(FitError, match=r"shifted scores reach .* below \[-3, 0\]"):
        statistical_max.fit(samples(), (-3.0, 0.0))
    with pytest.raises(FitError, match="empty or not finite"):
        statistical_max.fit(samples(), (0.0, 0.0))


def test_rows_without_variance_are_admitted():
    spec = statistical_max.fit([(np.full((2, 4), 3.0), np.ones(4))], (-1.0, 0.0))
    assert shift(np.full((2, 4), 3.0), np.ones(4), spec) == pytest.approx([3.0, 3.0], abs=1e-2)


def test_json_round_trip_is_exact():
    spec = statistical_max.fit(samples(), (-15.0, 0.5))
    assert spec_from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    with pytest.raises(FitError, match="fields"):
        spec_from_dict({"slope": 1.0})


TOKENS, SEQUENCES, LANES = 16, 3, 1


def diagonals(scores, babies):
    """(sequences, queries, keys) -> P[giant][baby], slot (t, sequence) = score of query t - G with key t +
    B."""
    t = np.arange(TOKENS)
    return [
        [scores[:, (t - g) % TOKENS, (t + b) % TOKENS].T.ravel() for b in range(babies)]
        for g in range(0, TOKENS, babies)
    ]


@pytest.mark.parametrize("babies", [2, 4, 8, 16])
@pytest.mark.parametrize("masked", [True, False])
def test_encrypted_shift_is_the_float_one_at_every_diagonal(babies, masked):
    rng = np.random.default_rng(5)
    slots, scale = TOKENS * 4, 0.2
    scores = rng.normal(0.5, 1.5, (4, TOKENS, TOKENS))
    masks = (
        (np.arange(TOKENS) < rng.integers(3, TOKENS + 1, (4, 1))) * 1.0 if masked else np.ones((4, TOKENS))
    )
    spec = ShiftSpec(2.6, 0.208, (-60.0, 15.0), (0.1, 1.0))
    expected = np.stack([shift(s, mask, spec) for s, mask in zip(scores, masks, strict=True)])

    be = PlainBackend(slots, 9)
    cts = [[be.drop_to(be.encrypt(v * scale), 8) for v in row] for row in diagonals(scores, babies)]
    weights = (masks / masks.sum(axis=1, keepdims=True)).T.ravel()
    turned = be.rotate_many(be.encrypt(weights), [b * 4 for b in range(babies)]) if masked else ()
    found = statistical_shift(be, cts, 4, scale, spec, turned)
    t = np.arange(TOKENS)
    for giant, ct in enumerate(found):
        assert ct.level == 8 - LEVELS
        np.testing.assert_allclose(
            ct.values, scale * expected[:, (t - giant * babies) % TOKENS].T.ravel(), atol=1e-12
        )


@pytest.mark.parametrize("masked", [True, False])
def test_stated_cost_is_what_sim_counts(masked):
    babies, giants = 8, 4
    sim, spec = SimBackend(256, 9), ShiftSpec(2.6, 0.208, (-60.0, 15.0), (0.1, 1.0))
    scores = [[sim.input(8) for _ in range(babies)] for _ in range(giants)]
    masks = [sim.input(9) for _ in range(babies)] if masked else ()
    out = statistical_shift(sim, scores, 8, 0.2, spec, masks)
    counts = {op: sum(n for (name, _, _), n in sim.counts.items() if name == op) for op, _, _ in sim.counts}
    cost = shift_cost(babies, giants, masked)
    hoisted = counts.get("rotate_hoisted", 0) + counts.get("rotate_shared", 0)
    assert counts["rotate"] + hoisted == cost.rotations
    tensors = counts.get("tensor", 0) + counts.get("outer", 0)
    relinearised = counts.get("mul", 0) + counts.get("relin", 0)
    assert relinearised == cost.relinearisations
    assert tensors + counts.get("mul", 0) == cost.products
    assert all(sim.level(ct) == 8 - LEVELS for ct in out)
