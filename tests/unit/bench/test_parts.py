"""Parts that papers time alone: their counts follow the packings' formulas, their seconds the prices."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.options import shipped_prices
from bench.runs.arion import degrees
from bench.tables import estimates, layers, part_estimates, parts
from tacita.approx.activations import silu
from tacita.errors import InputError
from tacita.layouts.columns import BatchShape
from tacita.layouts.multidiagonal import Features
from tacita.planning.fitting import Accuracy
from tacita.plans.engine import describe
from tacita.slots.sim import SimBackend

SLOTS = 1 << 11


def test_a_product_costs_more_at_higher_levels_and_none_below_its_own() -> None:
    rows = list(parts.by_level(Features.hidden(SLOTS, 32, 6, 16), 16, shipped_prices(), (16, 4, 2)))
    assert [(row["level"], row["levels_used"]) for row in rows] == [(16, 1), (4, 1), (2, 1), (16, 3), (4, 3)]
    assert rows[0]["rotations"] == 26, "two of them conjugations, as tests of this packing count"
    for one in (rows[:3], rows[3:]):
        assert len({row["rotations"] for row in one}) == 1
        seconds = [row["seconds"] for row in one]
        assert seconds == sorted(seconds, reverse=True) and len(set(seconds)) == len(seconds)


def test_columns_rotate_in_products_alone() -> None:
    """(b + g - 2) rotations of pairs of Q, K, V and the mask, a conjugation for each diagonal and pair: 16
    tokens are 4 babies and 4 giants, MOAI's split 16 babies."""
    shape, size = BatchShape(SLOTS, 16), 4
    rows = {row["part"]: row for row in parts.attention_in_columns(shape, size, shipped_prices())}
    products = rows["Q K^T V, 16 tokens of 4 in columns, double"]
    babies, giants, pairs = 8, 2, size // 2
    each = babies + giants - 2
    assert products["rotations"] == each * pairs + each * (pairs + 1) + shape.tokens + pairs
    scores, context = (rows[f"{part}, 16 tokens of 4 in columns, double"] for part in ("Q K^T", "P V"))
    assert scores["rotations"] == each * pairs + shape.tokens, "a conjugation for each diagonal"
    assert scores["rotations"] + context["rotations"] == products["rotations"]
    assert products["products"] >= shape.tokens * (2 * pairs + 1)
    softmax = rows["softmax, 16 tokens of 4 in columns, double"]
    assert softmax["rotations"] == 0 and softmax["products"] > shape.tokens + size
    assert softmax == rows["softmax, 16 tokens of 4 in columns, single"] | {"part": softmax["part"]}
    assert rows["Q K^T V, 16 tokens of 4 in columns, single"]["rotations"] > products["rotations"]
    assert products["seconds_a_text"] * shape.sequences == pytest.approx(products["seconds"])


def test_a_norm_in_columns_has_a_product_a_column_twice() -> None:
    row = parts.norm_in_columns(BatchShape(SLOTS, 16), 32, shipped_prices())
    assert row["rotations"] == 0 and row["products"] >= 2 * 32 and row["texts"] == 128


def test_a_softmax_of_rows_is_the_exact_one_but_for_its_error() -> None:
    scores, ring = (-20.0, 20.0), describe("insecure_toy_n12")
    values = parts.sampled(scores, ring.slots // 32, 32)
    one = parts.softmax_of_rows(ring, values, scores, shipped_prices(), Accuracy())
    mean, largest = one.row["log2_error"]
    assert mean < largest < -7.0
    assert one.row["rotations"] == 5 * (1 + one.row["rounds"]) + one.row["rounds"], "sums, real inverses"


@pytest.mark.native
def test_encrypted_rounds_err_no_more_than_simulated_ones() -> None:
    """An inverse's imaginary part would be as large as the probabilities of rows 25 nats below the others."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    ring, prices, scores = describe("insecure_toy_n12"), shipped_prices(), part_estimates.THOR
    values = parts.sampled(scores, ring.slots // 128, 128)
    one = parts.in_rounds(ring, values, parts.softmax_specs(values, scores, 1, Accuracy()), prices)
    largest = part_estimates.encrypted(one, ring, allow_insecure=True)[1]
    assert largest < one.row["log2_error"][1] + 2.0


def test_simulated_rounds_fail_where_an_inverse_keeps_its_imaginary_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is refreshed beside the exponentials: on ciphertexts they were off by 2^62 (decision 126)."""
    ring, prices, scores = describe("insecure_toy_n12"), shipped_prices(), part_estimates.THOR
    values = parts.sampled(scores, ring.slots // 128, 128)
    specs = parts.softmax_specs(values, scores, 1, Accuracy())
    one = parts.in_rounds(ring, values, specs, prices)
    assert one.row["log2_error"][1] < -7.0
    monkeypatch.setattr(SimBackend, "conjugate", lambda _, ct: ct)
    with np.errstate(all="ignore"):  # values explode
        without = parts.in_rounds(ring, values, specs, prices)
    assert not without.row["log2_error"][1] < 0.0


def test_scores_reach_their_interval_and_rows_differ() -> None:
    scores = parts.sampled((-4.0, 8.0), 64, 32)
    assert scores.min() >= -4.0 and 7.5 < scores.max() <= 8.0
    assert np.ptp(scores.max(axis=1)) > 3.0 and scores.max(axis=1).min() >= 4.0


def test_heads_share_the_rotations_of_what_they_read() -> None:
    """Q and K read the same turns of x; a product of H heads has 2 H ciphertexts to bring back and sum."""
    rows = {
        row["part"]: row for row in parts.of_heads(Features.hidden(SLOTS, 32, 6, 16), 16, shipped_prices())
    }
    assert rows["V of 96 x 32"]["key_switches"] == 26, "as tests of this packing count"
    assert 26 < rows["Q and K of 96 x 32"]["key_switches"] < 2 * 26
    for heads in (1, 2, 4, 8, 16):
        row = rows[f"{heads} products of 32 x 32 in 1024 slots"]
        assert row["key_switches"] == row["rotations"] + heads, "a relinearisation a ciphertext"
        assert row["products"] == 32 * heads * (1 + (heads > 1)), "twice where a sum belongs to two"


SMALL = layers.Sizes("a model", 64, 4, 512, 3, silu, (-8.0, 8.0), decodes=True)
BATCH = BatchShape(SLOTS, 8)


def test_a_product_with_weights_is_counted_as_the_simulator_counts_it() -> None:
    be = SimBackend(SLOTS, 3)
    be.matmul([be.input() for _ in range(5)], np.ones((7, 5, 1)))
    assert layers.dense(5, 7, 3) == be.counts


def _by_name(sizes: layers.Sizes) -> dict[str, Any]:
    rows = layers.parts_of(BATCH, sizes, shipped_prices())
    return {row["part"].partition(" of a model")[0]: row for row in rows}


def test_parts_of_layers_add_up_and_grow_with_the_layers() -> None:
    rows, twice = _by_name(SMALL), _by_name(replace(SMALL, layers=6))
    total = rows.pop("all")
    assert sum(row["seconds"] for row in rows.values()) == pytest.approx(total["seconds"])
    assert total["seconds_a_text"] * BATCH.sequences == pytest.approx(total["seconds"])
    for name, row in rows.items():
        times = 1 if name == "last norm" else 2
        assert twice[name]["seconds"] == pytest.approx(row["seconds"] * times), name
    bootstrap = shipped_prices().bootstrap_seconds(("complex",) * 32)
    assert rows["bootstraps before a norm"]["seconds"] == pytest.approx(3 * bootstrap), "columns two by two"


def test_an_encoder_has_no_gate_and_no_rotary_positions() -> None:
    encoder, decoder = (_by_name(replace(SMALL, decodes=decodes)) for decodes in (False, True))
    own = {"gate", "rotary positions of Q", "bootstraps behind a layer", "all"}
    assert own <= decoder.keys() - encoder.keys()
    assert encoder["expansion"]["seconds"] < decoder["expansion"]["seconds"]


def test_products_of_a_layer_are_those_of_its_heads() -> None:
    split = layers.Split.double(8)
    row = layers.matrices(BATCH, SMALL, split, shipped_prices())
    one = next(
        each
        for each in parts.attention_in_columns(BATCH, 16, shipped_prices())
        if each["part"] == "Q K^T V, 8 tokens of 16 in columns, double"
    )
    assert row["seconds"] == pytest.approx(4 * one["seconds"])
    assert row["rotations"] == 4 * one["rotations"]


def test_a_kind_of_parts_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    part_estimates.part_estimates("operations")
    assert [line.split('"')[3] for line in capsys.readouterr().out.splitlines()] == [
        f"{op} at 12 limbs" for op in ("mul_plain", "rescale", "mul", "rotate")
    ]
    with pytest.raises(InputError, match="no parts"):
        part_estimates.part_estimates("nothing")


def test_a_layer_in_the_middle_stands_for_all() -> None:
    stages = [SimpleNamespace(name=f"layer{n}.norm", kinds=("complex",) * n) for n in range(3)]
    plan: Any = SimpleNamespace(
        stages=stages, prediction=SimpleNamespace(stage_seconds=(1.0, 4.0, 9.0)), batch=2
    )
    refresh = shipped_prices().bootstrap_seconds(("complex",))
    assert estimates.middle_layer(plan, shipped_prices(), 1, 12) == {
        "norm": {
            "seconds_per_input": pytest.approx(6 * (4.0 - refresh)),
            "seconds_of_bootstraps_per_input": pytest.approx(6 * refresh),
            "bootstraps": 12,
        }
    }
    assert estimates.middle_layer(plan, shipped_prices(), -1, 12) == {}


def test_degrees_are_of_functions_that_are_one_polynomial() -> None:
    nodes = {
        "norm": {"rsqrt": {"kind": "chebyshev", "function": "rsqrt", "coefficients": [1.0] * 6}},
        "forward": {"function": {"kind": "even", "function": "gelu", "coefficients": [1.0] * 18}},
        "other": {"rsqrt": {"kind": "relaxed", "function": "rsqrt"}},
    }
    assert dict(degrees(nodes)) == {"norm, rsqrt": 5, "forward, gelu": 34}
