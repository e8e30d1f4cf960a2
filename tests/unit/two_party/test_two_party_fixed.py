"""The simulation: its functions against exact ones, its numbers against the engine's, whole
models against float."""

from __future__ import annotations

import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eager import SIMULATED, Known, SharedTensors
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.blocks import sequence
from tacita.blocks.base import Dense, Rotary
from tacita.blocks.floats import FUNCTIONS, FloatTensors
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.reference import reference
from tacita.planning.request import PlanRequest
from tacita.texts.embed import padded_words
from tacita.texts.embedding import WORDS
from tacita.two_party.arithmetic import functions, residues
from tacita.two_party.arithmetic.base import (
    BUMPED,
    MEAN_RING,
    MEAN_WEIGHT,
    TURN,
    AttentionBounds,
    Bounds,
    Fixed,
    Format,
    Formats,
    constant,
    encode,
    range_bits,
    rescaled,
)
from tacita.two_party.arithmetic.residues import Chain, Stage, from_floats
from tacita.two_party.arithmetic.rotary import turns
from tacita.two_party.model import ServerModel, simulation
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program.run import Run

FITS = Path(__file__).parents[3] / "crates" / "mpc" / "src" / "nonlinear" / "fits.rs"
FILMS = [
    "a film of quiet beauty",
    "a waste of time",
    "it is neither good nor bad , only long",
    "the plot is dull",
]


def test_the_chains_are_the_engines() -> None:
    source = FITS.read_text()
    found = {
        m[1]: _chain(m[2]) for m in re.finditer(r"pub const (\w+): Chain = Chain \{(.*?)\n\};", source, re.S)
    }
    ours = {name: chain for name, chain in vars(residues).items() if isinstance(chain, Chain)}
    assert len(ours) >= 10
    for name, chain in ours.items():
        assert found[name] == chain, name


def _chain(body: str) -> Chain:
    def number(key: str) -> float:
        return float(re.search(rf"\b{key}: (-?[\d.]+)", body)[1])

    stages = re.findall(r"negate: (\w+),\s*mix: &\[(.*?)\],\s*constant: (-?[\d.]+)", body, re.S)
    return Chain(
        number("sigma"),
        number("shift"),
        int(number("exponent")),
        tuple(
            Stage(
                -1 if negate == "true" else 1, tuple(float(c) for c in mix.split(",") if c.strip()), float(b)
            )
            for negate, mix, b in stages
        ),
    )


@pytest.mark.parametrize(("ring", "fraction"), [(52, 18), (50, 18), (40, 14), (30, 12)])
def test_functions_are_within_their_stated_errors(ring: int, fraction: int) -> None:
    x = np.linspace(-7.99, 7.99, 10_001)
    fixed = Fixed(encode(x, fraction), fraction)
    assert np.abs(functions.tanh(fixed, ring, 3).floats - np.tanh(x)).max() < 1.2e-3
    assert 2e-4 < np.abs(functions.elu(fixed, ring, 3).floats - FUNCTIONS["elu"](x)).max() < 8e-4
    low = np.linspace(-31.0, 0.03, 10_001)  # what a maximum that is 2^-5 off leaves above 0
    assert (
        np.abs(functions.exp(Fixed(encode(low, fraction), fraction), ring, 5).floats - np.exp(low)).max()
        < 6e-4
    )


@pytest.mark.parametrize(("ring", "fraction"), [(52, 18), (50, 18), (40, 14), (30, 12)])
@pytest.mark.parametrize(("form", "error"), [("abs4", 2.5e-3), ("abs8", 7e-4)])
@pytest.mark.parametrize("kind", BUMPED)
def test_activations_are_within_their_stated_errors(
    ring: int, fraction: int, kind: str, form: str, error: float
) -> None:
    """Over the fitted interval, around its end, and far beyond."""
    x = np.concatenate(
        [np.linspace(-15.99, 15.99, 20_001), *(np.linspace(z, z + 0.1, 99) for z in (-8.3, 8.2))]
    )
    fixed = Fixed(encode(x, fraction), fraction)
    found = functions.bumped(fixed, ring, 4, functions.BUMPS[kind][form])
    worst = np.abs(found.floats - FUNCTIONS[kind](x)).max()
    assert error / 8 < worst < error


@pytest.mark.parametrize(
    ("rotary", "tokens", "size"),
    [
        (Rotary(10_000.0), 512, 64),
        (Rotary(160_000.0), 40, 32),
        (Rotary(1.5), 7, 2),
        (Rotary(500_000.0, scales=(1.0, 0.7320508, 0.125, 0.0)), 512, 8),
    ],
)
def test_turns_are_the_angles_of_floats_to_the_last_place(rotary: Rotary, tokens: int, size: int) -> None:
    """All of them rounded to the nearest: were one place up to the machine, one party's share would be
    noise."""
    found = turns((rotary.base, rotary.scales), tokens, size, TURN)
    wanted = sequence.angles(rotary, (tokens, size))
    for ours, exact in zip(found, wanted, strict=True):
        assert ours.shape == (tokens, size // 2)
        assert np.abs(ours - np.ldexp(exact, TURN)).max() <= 0.5 + 1e-6
    finer = turns((rotary.base, rotary.scales), tokens, size, 40)
    assert np.abs(np.ldexp(finer[0], -40) - wanted[0]).max() < 1e-11


def test_a_query_that_sees_only_padding_is_no_number_that_is_none() -> None:
    """Token 6 sees 5 to 7, all padding: its row is finite, and the others do not know of it."""
    bounds = Bounds({"n": AttentionBounds((-9.0, 9.0), 4.0)}, {}, {})
    mask = (np.arange(8) < 4).astype(np.float64)
    scores = np.random.default_rng(3).normal(size=(2, 8, 8))
    ops = SharedTensors(SIMULATED, Known(Formats(), bounds, 8, Weights({}), mask))
    ring = Formats().score_ring(bounds.attention["n"])
    numerators, inverse = ops.softmax(ops.enters(from_floats(scores, 24, ring)), "n", (1, 1))
    weights = ops.floats(numerators) * ops.floats(inverse)
    by_float = FloatTensors(Weights({}), mask).softmax(scores, "n", (1, 1))
    assert np.isfinite(by_float).all()
    assert np.abs(weights - by_float).max() < 2e-3
    assert not by_float[:, :4, 4:].any() and not by_float[:, 0, 2:].any()


def test_products_and_turns_that_leave_their_ring_are_counted() -> None:
    bounds = Bounds({}, {"n": (-1.0, 9.0)}, {}, {"n": 3.0})
    ops = SharedTensors(SIMULATED, Known(Formats(), bounds, 2, Weights({}), np.ones(2)))
    big = np.full((1, 2, 4), 9.0)
    ops.share(ops.times(*(ops.enters(from_floats(big, 18, 64)) for _ in range(2)), "n"))
    assert ops.overflows == 8
    ops.share(ops.turn(ops.enters(from_floats(big * 2.0**19, 18, 50)), Rotary(100.0)))
    assert ops.overflows > 8


def test_exp_is_exactly_zero_below_its_range() -> None:
    x = np.linspace(-1000.0, -10.6, 999)
    assert not functions.exp(Fixed(encode(x, 18), 18), 58, 10).values.any()


@pytest.mark.parametrize("span", [(-1, 8), (-4, 3), (0, 1), (-4, 10)])
def test_reciprocals_are_right_to_three_in_a_hundred_thousand(span: tuple[int, int]) -> None:
    x = np.exp2(np.linspace(span[0] + 0.01, span[1] - 0.01, 3001))
    fixed = Fixed(encode(x, 14), 14)
    fraction = span[1] + 18
    assert np.abs(functions.reciprocal(fixed, span, fraction).floats * fixed.floats - 1.0).max() < 4e-5
    roots = functions.rsqrt(fixed, span, 1.7, fraction).floats * np.sqrt(fixed.floats) / 1.7
    assert np.abs(roots - 1.0).max() < 4e-5


@pytest.mark.parametrize("columns", [1, 2, 128])
def test_softmax_of_its_halves(columns: int) -> None:
    scores = np.random.default_rng(1).uniform(-8.0, 8.0, (50, columns))
    powers, inverse = functions.softmax_parts(Fixed(encode(scores, 24), 24), 58, 4, 16)
    exact = np.exp(scores - scores.max(axis=1, keepdims=True))
    found = powers.floats * inverse.floats
    assert np.abs(found - exact / exact.sum(axis=1, keepdims=True)).max() < 2e-3


def test_a_factor_is_kept_to_fourteen_bits_in_the_fewest_bits() -> None:
    x = encode(np.linspace(-3.0, 3.0, 101), 18)
    found = rescaled(x, Format(52, 18), 0.3787, Format(32, 15))
    np.testing.assert_allclose(found, np.ldexp(x, -3) * 0.3787, atol=0.51 + 3 * 2**15 * 2.0**-14)
    np.testing.assert_array_equal(rescaled(x, Format(52, 18), 1.0, Format(12, 6)), (x + (1 << 11)) >> 12)
    with pytest.raises(ValueError, match="64 bits"):
        rescaled(x, Format(60, 40), 1e-9, Format(62, 15))


def test_constants_round_halves_away_from_zero_like_the_engine() -> None:
    assert [constant(v, 1) for v in (0.25, -0.25, 0.75, -0.75, 0.2)] == [1, -1, 2, -2, 0]


def test_ranges_count_their_bits() -> None:
    assert [
        range_bits(*pair) for pair in ((-1.0, 0.5), (-0.1, 0.1), (-3.9, 4.0), (0.0, 7.99), (-8.0, 1.0))
    ] == [
        1,
        1,
        3,
        3,
        4,
    ]
    assert AttentionBounds((-4.0, 5.0), 1.0).hiding == 20.0
    formats = Formats()
    assert formats.mixed_fraction(7.9) + formats.inverse + 3 + 2 == formats.normal_ring


def logits(
    checkpoint: Checkpoint, texts: list[str], tokens: int, formats: Formats | None = None, calibration=None
):
    plan = make_two_party_plan(
        checkpoint,
        PlanRequest(scheme="bumblebee", tokens=tokens, texts=calibration or texts, formats=formats),
    )
    samples = [embed(checkpoint, text, tokens) for text in texts]
    runs = [simulation(plan, Weights(checkpoint.tensors), mask) for _, mask in samples]
    found = np.array([run.floats(hidden)[0] for run, (hidden, _) in zip(runs, samples, strict=True)])
    wanted = np.array([reference(checkpoint, *sample).logits for sample in samples])
    return found, wanted, any(run.overflows for run in runs)


def test_the_default_model_keeps_its_logits() -> None:
    found, wanted, overflows = logits(api.load(api.DEFAULT_MODEL), FILMS, 32)
    assert np.abs(found - wanted).max() < 0.01
    assert not overflows


@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_random_models_keep_their_answers(pooling: str, activation: str) -> None:
    checkpoint = make_random_checkpoint(pooling=pooling, activation=activation, labels=())
    texts = ["a fine film", "the plot is dull , dull , dull", "never boring"]
    found, wanted, overflows = logits(checkpoint, texts, 16)
    assert np.abs(found - wanted).max() < 0.03
    assert not overflows


def test_a_table_of_turns_takes_little_more_than_its_numbers() -> None:
    """A program may ask for 16,384 rows of 2,048 angles: as pairs of Python's numbers 5 GB."""
    tracemalloc.start()
    try:
        cos, sin = turns((10007.0, ()), 1024, 64, TURN)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2 * (cos.nbytes + sin.nbytes)


@pytest.mark.parametrize("rows", [1, 3, 511, 8160])
def test_the_weights_of_a_mean_are_one_together(rows: int) -> None:
    """However long the text: that of 8,160 equal rows is one of them."""
    mask = np.zeros(8192)
    mask[:rows] = 1.0
    program: Any = None
    place: Any = {"fraction": MEAN_WEIGHT, "ring": MEAN_RING}
    weights = Run(None, program, mask).average(place)[0, 0].astype(np.int64)
    assert weights.sum() == 1 << MEAN_WEIGHT and not weights[rows:].any()
    assert np.abs(weights[:rows] - 2.0**MEAN_WEIGHT / rows).max() < 1.0


@pytest.mark.parametrize("norm", [True, False])
def test_a_hidden_embedding_keeps_the_answers(norm: bool) -> None:
    checkpoint = make_random_checkpoint(labels=())
    checkpoint = replace(checkpoint, config=replace(checkpoint.config, embedding_norm=norm))
    texts = ["a fine film", "the plot is dull , dull , dull", "never boring"]
    plan = make_two_party_plan(checkpoint, PlanRequest(tokens=16, texts=texts, embeddings="hidden"))
    for text in texts:
        ids, mask = padded_words(checkpoint, text, 16)
        run = simulation(plan, Weights(checkpoint.tensors), mask)
        found = run.floats(checkpoint.tensors[WORDS][ids])[0]
        assert np.abs(found - reference(checkpoint, *embed(checkpoint, text, 16)).logits).max() < 0.03
        assert not run.overflows


def test_padding_changes_nothing_but_the_last_place() -> None:
    checkpoint = api.load(api.DEFAULT_MODEL)
    short, long = (logits(checkpoint, [FILMS[0]], tokens, calibration=FILMS)[0] for tokens in (8, 32))
    np.testing.assert_allclose(
        short, long, atol=1e-4
    )  # the sum's span, and its last place with it, depend on the columns


def test_values_outside_the_calibrated_ranges_are_counted_by_step() -> None:
    checkpoint = make_random_checkpoint(layers=1)
    plan = make_two_party_plan(checkpoint, PlanRequest(tokens=16, texts=["a fine film"]))
    narrow = replace(plan.bounds, functions=plan.bounds.functions | {"layer0.feed_forward": (-0.01, 0.01)})
    hidden, mask = embed(checkpoint, "the plot is dull", 16)
    run = simulation(replace(plan, bounds=narrow), Weights(checkpoint.tensors), mask)
    run.floats(hidden)
    assert set(run.overflows) == {"layer0.feed_forward"}


def test_weights_become_integers_once_where_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices are cached by fraction bits, transposed, in the fewest bytes; a second text takes them."""
    dense, form = (Dense("map", 2, 3), Dense("other", 2, 1, bias=False, scale=0.5)), Format(64, 30)
    map_, other = np.array([[0.5, -0.25], [1.0, 0.0], [0.1, 2.0]]), np.array([[2.0, 1024.0]])
    weights = Weights({"map.weight": map_, "map.bias": np.zeros(3), "other.weight": other})
    model, finer = (ServerModel(Formats(weight=bits), weights, {0: (dense, form)}) for bits in (6, 7))
    expected = [[32, 64, 6, 64], [-16, 0, 128, 32768]]
    for _ in range(2):
        first = model.matrix(0)
        assert first.tolist() == expected and first.flags.c_contiguous and first.dtype == np.int64
        assert weights.cache((dense, 6), pytest.fail).dtype == np.int32
    monkeypatch.setattr("tacita.two_party.model.available_memory", lambda: 87)  # 11 numbers take 22 bytes
    large = ServerModel(Formats(weight=6), Weights(weights.tensors), {0: (dense, form)})
    assert large.matrix(0).tolist() == expected and large.matrix(0).flags.c_contiguous
    assert large._weights.cache((dense, 6), lambda: "nothing") == "nothing"
    assert finer.matrix(0).tolist() == [[64, 128, 13, 128], [-32, 0, 256, 65536]]
