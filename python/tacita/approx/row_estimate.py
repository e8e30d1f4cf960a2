"""Row estimate: a number taken from all scores of a row, from the row's query alone, so that all rows' means
are alike.

Softmax does not change when a row's scores all fall by the same number. The log of a row's mean of
exponentials is close to a quadratic form of its query (the second cumulant of its scores, which are linear in
the query), mostly of rank 1:

    log mean_j exp(q_i . k_j)  ~  b . q_i + (v . q_i)^2 + c        (q divided by sqrt(head size))

Taken from the scores before exp, it leaves 1/x a narrow interval at no level of its own. b . q_i comes off
with the key's bias and costs nothing in any packing. (v . q_i)^2 takes a square: `packings.columns` has it
ready at the level of the scores for one column a head, the packings of one text leave it out (v = 0). c is
one number for each head, beside the centre that scores are stored about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Vectors = tuple[tuple[float, ...], ...]  # (heads, head size)


@dataclass(frozen=True)
class RowEstimate:
    """The coefficients of every head of one layer: linear b, quadratic v, constant c."""

    linear: Vectors
    quadratic: Vectors
    constant: tuple[float, ...]

    @property
    def is_linear(self) -> bool:
        """Whether it has no quadratic part."""
        return not np.any(self.quadratic)

    def of(self, queries: Array) -> Array:
        """Computes the estimates: queries (tokens, heads, head size), divided by sqrt(head size) -> (heads,
        tokens)."""
        b, v = np.array(self.linear), np.array(self.quadratic)
        z = np.einsum("thd,hd->ht", queries, v)
        return np.asarray(np.einsum("thd,hd->ht", queries, b) + z**2 + np.array(self.constant)[:, None])

    def key_bias(self, bias: Array) -> Array:
        """Returns the key's bias (hidden,) less b: it takes b . q_i from the scores."""
        return np.asarray(bias - np.concatenate([np.array(b) for b in self.linear]))

    def roots(self, weight: Array, bias: Array) -> tuple[Array, Array]:
        """Maps a query (hidden, inputs), (hidden,), scaled by any factor, to v . q of every head: (heads,
        inputs), (heads,)."""
        v = np.array(self.quadratic)
        heads, size = v.shape
        return np.einsum("hd,hdi->hi", v, weight.reshape(heads, size, -1)), (
            v * bias.reshape(heads, size)
        ).sum(axis=1)
