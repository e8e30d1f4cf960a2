"""The fixed-point interpreter: its functions against exact ones, its numbers against the engine's, whole
models against float."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.approx.activations import gelu
from tacita.blocks.base import Dense
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, embed
from tacita.front.embed import padded_words
from tacita.front.front import WORDS
from tacita.models.reference import reference
from tacita.planning.two_party import make_two_party_plan
from tacita.planning.wish import Wish
from tacita.two_party import chains, functions
from tacita.two_party.base import AttentionBounds, Formats, range_bits
from tacita.two_party.chains import Chain, Stage
from tacita.two_party.fixed import FixedTensors
from tacita.two_party.integers import Fixed, Format, constant, encode, rescaled, weight_integers

FITS = Path(__file__).parents[2] / "crates" / "mpc" / "src" / "nonlinear" / "fits.rs"
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
    assert len(found) >= 7
    for name, chain in found.items():
        assert getattr(chains, name) == chain, name


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
    assert np.abs(functions.gelu(fixed, ring, 3, "abs4").floats - gelu.exact(x)).max() < 2.5e-3
    assert np.abs(functions.gelu(fixed, ring, 3, "abs8").floats - gelu.exact(x)).max() < 6e-4
    assert np.abs(functions.tanh(fixed, ring, 3).floats - np.tanh(x)).max() < 1.2e-3
    low = np.linspace(-31.0, 0.03, 10_001)  # what a maximum that is 2^-5 off leaves above 0
    assert (
        np.abs(functions.exp(Fixed(encode(low, fraction), fraction), ring, 5).floats - np.exp(low)).max()
        < 6e-4
    )


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
    plan = make_two_party_plan(checkpoint, Wish(tokens=tokens, texts=calibration or texts, formats=formats))
    samples = [embed(checkpoint, text, tokens) for text in texts]
    hidden, mask = (np.stack(parts) for parts in zip(*samples, strict=True))
    ops = FixedTensors(plan.formats, plan.bounds, Weights(checkpoint.tensors), mask)
    found = plan.run(ops, ops.input(hidden)).floats[:, 0]
    wanted = np.array([reference(checkpoint, *sample).logits for sample in samples])
    return found, wanted, ops.overflows


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


@pytest.mark.parametrize("norm", [True, False])
def test_a_hidden_embedding_keeps_the_answers(norm: bool) -> None:
    checkpoint = make_random_checkpoint(labels=())
    checkpoint = replace(checkpoint, config=replace(checkpoint.config, embedding_norm=norm))
    texts = ["a fine film", "the plot is dull , dull , dull", "never boring"]
    plan = make_two_party_plan(checkpoint, Wish(tokens=16, texts=texts, embeddings="hidden"))
    rows = [padded_words(checkpoint, text, 16) for text in texts]
    words = np.stack([checkpoint.tensors[WORDS][ids] for ids, _ in rows])
    ops = FixedTensors(
        plan.formats, plan.bounds, Weights(checkpoint.tensors), np.stack([mask for _, mask in rows])
    )
    found = plan.run(ops, ops.words(words)).floats[:, 0]
    wanted = np.array([reference(checkpoint, *embed(checkpoint, text, 16)).logits for text in texts])
    assert np.abs(found - wanted).max() < 0.03
    assert not ops.overflows


def test_padding_changes_nothing_but_the_last_place() -> None:
    checkpoint = api.load(api.DEFAULT_MODEL)
    short, long = (logits(checkpoint, [FILMS[0]], tokens, calibration=FILMS)[0] for tokens in (8, 32))
    np.testing.assert_allclose(
        short, long, atol=1e-4
    )  # the sum's span, and its last place with it, depend on the columns


def test_values_outside_the_calibrated_ranges_are_counted_by_step() -> None:
    checkpoint = make_random_checkpoint(layers=1)
    plan = make_two_party_plan(checkpoint, Wish(tokens=16, texts=["a fine film"]))
    narrow = replace(plan.bounds, functions=plan.bounds.functions | {"layer0.feed_forward": (-0.01, 0.01)})
    hidden, mask = embed(checkpoint, "the plot is dull", 16)
    ops = FixedTensors(plan.formats, narrow, Weights(checkpoint.tensors), mask)
    plan.run(ops, ops.input(hidden))
    assert set(ops.overflows) == {"layer0.feed_forward"}


def test_weights_become_integers_once() -> None:
    """By number of fraction bits, transposed; the second text finds them."""
    dense = (Dense("map", 2, 3),)
    weights = Weights(
        {"map.weight": np.array([[0.5, -0.25], [1.0, 0.0], [0.1, 2.0]]), "map.bias": np.zeros(3)}
    )
    first = weight_integers(weights, dense, 4)
    assert first.tolist() == [[8, 16, 2], [-4, 0, 32]] and first.flags.c_contiguous
    assert weight_integers(weights, dense, 4) is first
    assert weight_integers(weights, dense, 5).tolist() == [[16, 32, 3], [-8, 0, 64]]
