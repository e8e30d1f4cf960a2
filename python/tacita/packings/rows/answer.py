"""From the hidden states of rows to the ciphertexts of the answer, laid out as `one_text.response` says: the
mean over tokens, and what is made of it."""

from __future__ import annotations

import numpy as np

from tacita.packings.arrays import Array, Diagonal
from tacita.packings.rotations import rotate_sum
from tacita.packings.rows.layout import FeatureLayout
from tacita.packings.rows.response import RowsResponse
from tacita.packings.vector.answer import Answering, answer_features, answer_logits, block
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


def mean(be: Backend, x: Cts, weights: Ct, layout: FeatureLayout) -> Cts:
    """Weighted sum over tokens, in every token. weights: encrypted mask / length, the same at all positions.
    One level, log2(tokens) rotations a ciphertext."""
    shape = layout.shape
    return tuple(rotate_sum(be, be.mul(ct, weights), shape.tokens, shape.window) for ct in x)


def row_logits(weight: Array, bias: Array, layout: FeatureLayout, entry: float, bound: float) -> Answering:
    """weight (classes, hidden). entry: bound of the pooled vector at token 0; bound: of the logits. Two
    levels.

    Token t holds the products of row t, then row t again; a sum over positions leaves logit t at position 0.
    Raises ShapeError for more classes than tokens hold twice.
    """
    shape = layout.shape
    diagonals: Diagonal = {}
    for i in range(layout.count):
        for t, row in enumerate(np.vstack([weight, weight]) * (entry / bound)):
            at = np.where(layout.home[i] >= 0, row[layout.home[i]], 0.0)
            diagonals[0, i, -t * shape.window] = block(at, t, shape.slots)
    response = RowsResponse(shape.slots, shape.window, len(bias), True, bound)
    return answer_logits(response, diagonals, layout.count, bias)


def row_features(layout: FeatureLayout, entry: float) -> Answering:
    """The pooled vector itself, at tokens 0 and 1; the check at token 2. entry: its bound. One level."""
    shape = layout.shape
    diagonals: Diagonal = {}
    for i in range(layout.count):
        inside = np.where(layout.home[i] >= 0, 1.0, 0.0)
        diagonals[i, i, 0] = block(inside, 0, shape.slots)
        diagonals[i, i, -shape.window] = block(inside, 1, shape.slots)
    return answer_features(RowsResponse(shape.slots, shape.window, layout.size, False, entry), diagonals)
