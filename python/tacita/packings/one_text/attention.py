"""What an attention of one text is built from besides weights and layout."""

from __future__ import annotations

from dataclasses import dataclass

from tacita.approx.spec import Spec
from tacita.packings.stored import Stored


@dataclass(frozen=True)
class AttentionSpecs:
    """Approximations and bounds of one attention.

    exp: of the scaled scores times share, values in (0, 1]. inverse: of the row sums of those, weighted by
    the mask; in two phases `first` is of these, and inverse of the row sums of squares.
    context, attended: bounds of |sum_j mask_j exp_ij V_j| before and after it is normalised. entry,
    residual: bounds of x and of the residual. exit: bound of the output plus residual, without its mean if
    centred.
    """

    exp: Spec
    inverse: Spec
    context: float
    attended: float
    entry: float
    exit: float
    residual: float
    centred: bool
    first: Spec | None = None
    share: float = 1.0

    @property
    def score_scale(self) -> float:
        """Stored scores = scores * this."""
        return Stored.input_of(self.exp).scale * self.share

    @property
    def back(self) -> float:
        """Factor of the stored residual in the stored sum."""
        return self.residual / self.exit
