"""The blocks of one text in rows, feed-forward blocks of all tokens by products of coefficients.

A block goes so where its activation is computed by a bootstrap, which is what follows a product of
coefficients; a block of one vector, one whose activation is a polynomial, and one with a gate, whose product
is of slots, stay in rows.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

from tacita.approx.fourier import FourierSpec
from tacita.blocks.base import FeedForward
from tacita.packings.base import Block, Operation, Target
from tacita.packings.coefficients.feed_forward import Bounds, CoefficientForward, Weights
from tacita.packings.coefficients.request import CoefficientRequest
from tacita.packings.coefficients.response import CoefficientResponse
from tacita.packings.one_text.parts import Form
from tacita.packings.one_text.request import OneTextRequest
from tacita.packings.one_text.response import OneTextResponse
from tacita.packings.rows.parts import RowParts

Numbers = TypeVar("Numbers", CoefficientRequest, CoefficientResponse)


class CoefficientParts(RowParts):
    """See `packings.base.Parts` and `RowParts`."""

    packing, answered = CoefficientResponse.tag, CoefficientResponse

    def request(self) -> CoefficientRequest:
        """See the contract."""
        return _renamed(super().request(), CoefficientRequest)

    def response(self) -> OneTextResponse:
        """See the contract."""
        return _renamed(super().response(), CoefficientResponse)

    def _feed_forward(self, block: Block[Form], f: FeedForward, target: Target) -> list[Operation]:
        activation = self._specs.function(block.name).function
        if block.x.form.vector or f.gate or not isinstance(activation, FourierSpec):
            return super()._feed_forward(block, f, target)
        exit_ = self._target_exit(target, vector=False)
        forward = CoefficientForward.build(
            Weights(*self._weights.dense(f.wide), *self._weights.dense(f.narrow)),
            self._linear,
            activation,
            Bounds(block.x.form.bound, block.residual.form.bound, exit_),
            ending=target.ending,
        )
        return forward.operations(block.name, block.x.live, block.residual.live, target.live)


def _renamed(found: OneTextRequest | OneTextResponse, kind: type[Numbers]) -> Numbers:
    """The same numbers, as this packing's."""
    return kind(**{f.name: getattr(found, f.name) for f in fields(found)})
