"""What an attention of one text is built from besides weights and layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.approx.row_estimate import RowEstimate
from tacita.approx.softmax import TwoPhases
from tacita.approx.spec import Spec
from tacita.layouts.arrays import Array
from tacita.layouts.one_text import OneTextResponse
from tacita.packings.base import Ending
from tacita.packings.one_text.linear import Cts, Linear, Map
from tacita.packings.stored import Stored
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True)
class AttentionSpecs:
    """Approximations and bounds of one attention.

    exp: of the scaled scores times share, values in (0, 1]. inverse: of the row sums of those, weighted by
    the mask; in two phases their first inverse is of these, and inverse of the row sums of squares.
    context, attended: bounds of |sum_j mask_j exp_ij V_j| before and after it is normalised. entry,
    residual: bounds of x and of the residual. exit: bound of the output plus residual, left as `ending`
    says. rows: taken from the scores before exp, linear; None for nothing.
    """

    exp: Spec
    inverse: Spec
    context: float
    attended: float
    entry: float
    exit: float
    residual: float
    ending: Ending
    phases: TwoPhases | None = None
    share: float = 1.0
    rows: RowEstimate | None = None

    @property
    def score_scale(self) -> float:
        """Stored scores = scores * this."""
        return Stored.input_of(self.exp).scale * self.share

    def key_bias(self, bias: Array) -> Array:
        """The key's bias (hidden,) with the linear part of the estimate taken off."""
        return self.rows.key_bias(bias) if self.rows else bias

    def score_offsets(self, heads: int) -> Array:
        """What is added to the scores of each head: the centre of their stored form and the estimate's
        constant. (heads,)"""
        constants = np.array(self.rows.constant) if self.rows else np.zeros(heads)
        return np.asarray(Stored.input_of(self.exp).offset - constants * self.score_scale)

    @property
    def back(self) -> float:
        """Factor of the stored residual in the stored sum."""
        return self.residual / self.exit


# An answer for every token of one text: a dense map of all rows, twice, and a check of the last LayerNorm.
#
# In the layout of an inner tensor of 2 * size + 1 features: feature 0 is half the norm check at the first
# token and zero at all others, then come a token's numbers, then their copies. Padding's rows hold whatever
# the model gives for them. Both copies come from one map of the same numbers, so copies that differ, or
# numbers where no feature is, show a broken decode whatever those rows hold.


@dataclass(frozen=True, eq=False)
class TokenAnswering:
    """Maps every token to its answer: the numbers, their copies, and a place for the check."""

    response: OneTextResponse
    map: Map

    @staticmethod
    def build(
        weight: Array, bias: Array, linear: Linear[Any], src: Any, entry: float, response: OneTextResponse
    ) -> TokenAnswering:
        """Builds the map. weight (outputs, hidden). src: layout of what is mapped, stored divided by `entry`.
        One level."""
        response.check()
        zero, inner = np.zeros((1, weight.shape[1])), linear.bare.inner(response.features)
        both = np.concatenate([zero, weight, weight]) * (entry / response.bound)
        shift = np.concatenate([[0.0], bias, bias]) / response.bound
        return TokenAnswering(response, linear.affine(both, shift, src, inner))

    def apply(self, be: Backend, x: Cts, check: Ct) -> Cts:
        """Makes the response of x and the norm check, which is in slot 0, as feature 0 of the first token
        is."""
        first, *others = self.map.apply(be, x)
        return be.add(first, check), *others
