"""An answer for every token of one text: a dense map of all rows, twice, and a check of the last LayerNorm.

In the layout of an inner tensor of 2 * size + 1 features: feature 0 is half the norm check at the first token
and zero at all others, then come a token's numbers, then their copies. Padding's rows hold whatever the model
gives for them. Both copies come from one map of the same numbers, so copies that differ, or numbers where no
feature is, show a broken decode whatever those rows hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.packings.arrays import Array
from tacita.packings.one_text.linear import Cts, Linear, Map
from tacita.packings.one_text.response import OneTextResponse
from tacita.slots.base import Backend, Ct


@dataclass(frozen=True, eq=False)
class TokenAnswering:
    """See the module's docstring."""

    response: OneTextResponse
    map: Map

    @staticmethod
    def build(
        weight: Array, bias: Array, linear: Linear[Any], src: Any, entry: float, response: OneTextResponse
    ) -> TokenAnswering:
        """weight (outputs, hidden). src: layout of what is mapped, stored divided by `entry`. One level."""
        response.check()
        zero, inner = np.zeros((1, weight.shape[1])), linear.bare.inner(response.features)
        both = np.concatenate([zero, weight, weight]) * (entry / response.bound)
        shift = np.concatenate([[0.0], bias, bias]) / response.bound
        return TokenAnswering(response, linear.affine(both, shift, src, inner))

    def apply(self, be: Backend, x: Cts, check: Ct) -> Cts:
        """x, and the norm check, which is in slot 0 as feature 0 of the first token is -> the response."""
        first, *others = self.map.apply(be, x)
        return be.add(first, check), *others
