"""Feed-forward block of one text: expand, activate, contract plus the residual. Three stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tacita.approx.spec import Spec
from tacita.packings.arrays import Array
from tacita.packings.one_text.linear import Cts, Linear, Map
from tacita.packings.stored import Stored, output_bound
from tacita.packings.weights import summed
from tacita.slots.base import Backend


@dataclass(frozen=True, eq=False)
class FeedForward:
    """linear: of input and residual. back: factor of the stored residual in the stored sum."""

    linear: Linear[Any]
    activation: Spec
    back: float
    centred: bool
    expansion: Map
    contraction: Map

    @staticmethod
    def build(
        weights: Sequence[Array],
        linear: Linear[Any],
        activation: Spec,
        entry: float,
        exit: float,
        *,
        residual: float,
        centred: bool,
    ) -> FeedForward:
        """weights: (intermediate, hidden), its bias, (hidden, intermediate), its bias, as in the checkpoint.

        entry, exit: bounds of the input and of the sum, which loses its mean if centred. residual: its bound.
        """
        up, up_bias, down, down_bias = weights
        layout, form = linear.layout, Stored.input_of(activation)
        inner, scale = layout.inner(up.shape[0]), output_bound(activation) / exit
        wide, moved = up * (entry * form.scale), up_bias * form.scale + form.offset
        narrow, shift = summed(down * scale, down_bias / exit, centred=centred)
        return FeedForward(
            linear=linear,
            activation=activation,
            back=residual / exit,
            centred=centred,
            expansion=linear.affine(wide, moved, layout, inner),
            contraction=linear.affine(narrow, shift, inner, layout),
        )

    def expand(self, be: Backend, y: Cts) -> Cts:
        """y / entry -> inner features stored for the activation. One level."""
        return self.expansion.apply(be, y)

    def contract(self, be: Backend, y: Cts, active: Cts) -> Cts:
        """(W2 active + y) / exit, centred or not. One level below active; below y, the residual, one, or two
        where `Linear.residual` says so. active: f(inner) / its largest value."""
        return self.linear.add(be, self.contraction.apply(be, active), y, self.back, centred=self.centred)
