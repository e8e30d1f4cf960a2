"""Parts that papers time alone: their counts follow the packings' formulas, their seconds the prices."""

from __future__ import annotations

import numpy as np
import pytest

from bench.options import shipped_prices
from bench.tables import parts
from tacita.layouts.columns import BatchShape
from tacita.layouts.multidiagonal import Features

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
    row = parts.softmax_of_rows(SLOTS, 32, (-20.0, 20.0), 16, shipped_prices())
    mean, largest = row["log2_error"]
    assert mean < largest < -7.0
    assert row["rotations"] == 5 * (1 + row["rounds"]), "sums over 32 keys"


def test_scores_reach_their_interval_and_rows_differ() -> None:
    scores = parts.sampled((-4.0, 8.0), 64, 32)
    assert scores.min() >= -4.0 and 7.5 < scores.max() <= 8.0
    assert np.ptp(scores.max(axis=1)) > 3.0 and scores.max(axis=1).min() >= 4.0
