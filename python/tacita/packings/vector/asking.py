"""The query of a first token, brought to the places where keys are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacita.packings.arrays import IntArray
from tacita.packings.positional import crossed
from tacita.packings.vector.layout import CyclicMap
from tacita.packings.weights import AttentionWeights


def asking(
    weights: AttentionWeights,
    scales: tuple[float, float],
    heads: int,
    src: IntArray,
    places: Sequence[IntArray],
) -> CyclicMap:
    """The query's map into these places; with rotary positions then that of its `crossed` rows. scales: of
    weight and bias."""
    weight, bias = weights.query * scales[0], weights.query_bias * scales[1]
    if weights.positional.turns is None:
        return CyclicMap.build(weight, bias, [src], places)
    weight, bias = (np.concatenate([side, crossed(side, heads)]) for side in (weight, bias))
    further = [np.where(row >= 0, row + len(weights.query_bias), -1) for row in places]
    return CyclicMap.build(weight, bias, [src], [*places, *further])
