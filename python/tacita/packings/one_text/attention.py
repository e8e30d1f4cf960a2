"""What an attention of one text is built from besides weights and layout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacita.approx.exponentials.softmax import TwoPhases
from tacita.approx.row_estimate import RowEstimate
from tacita.approx.spec import Spec
from tacita.packings.arrays import Array
from tacita.packings.base import Ending
from tacita.packings.stored import Stored


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
