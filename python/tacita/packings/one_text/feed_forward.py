"""Feed-forward block of one text: expand, activate, contract plus the residual. Three stages, or four with a
gate, whose two expansions are one map of the input and whose product takes one level more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacita.approx.spec import Spec
from tacita.packings.base import Ending
from tacita.packings.one_text.linear import Cts, Linear, Map
from tacita.packings.one_text.together import together
from tacita.packings.stored import Stored, output_bound
from tacita.packings.weights import ForwardWeights, Gate, summed
from tacita.slots.base import Backend


@dataclass(frozen=True, eq=False)
class FeedForward:
    """linear: of input and residual. back: factor of the stored residual in the stored sum. gate: None
    without one."""

    linear: Linear[Any]
    activation: Spec
    back: float
    ending: Ending
    expansion: Map
    contraction: Map
    gate: Gate | None = None

    @staticmethod
    def build(
        weights: ForwardWeights,
        linear: Linear[Any],
        activation: Spec,
        entry: float,
        exit: float,
        *,
        residual: float,
        ending: Ending,
        gate: Gate | None = None,
    ) -> FeedForward:
        """entry, exit: bounds of the input and of the sum, left as `ending` says. residual: its bound."""
        (down, down_bias), layout = weights.narrow, linear.layout
        inner, scale = layout.inner(down.shape[1]), (gate.scale if gate else output_bound(activation)) / exit

        def expand() -> Map:
            first, *others = weights.expansions(entry, Stored.input_of(activation), gate)
            if others:
                return linear.stacked([first, *others], layout, inner)
            return linear.affine(*first, layout, inner)

        def contract() -> Map:
            return linear.affine(
                *summed(down * scale, down_bias / exit, centred=ending.centred), inner, layout
            )

        expansion, contraction = together(expand, contract)
        return FeedForward(linear, activation, residual / exit, ending, expansion, contraction, gate)

    def expand(self, be: Backend, y: Cts) -> Cts:
        """y / entry -> inner features stored for the activation, then with a gate its factor. One level."""
        return self.expansion.apply(be, y)

    def multiply(self, be: Backend, active: Cts, factor: Cts) -> Cts:
        """The gate's product. One level."""
        assert self.gate is not None
        return self.gate.multiply(be, active, factor)

    def contract(self, be: Backend, y: Cts, active: Cts) -> Cts:
        """(W2 active + y) / exit, centred or not. One level below active; below y, the residual, one, or two
        where `Linear.residual` says so. active: f(inner) / its largest value, or a gate's product."""
        return self.linear.add(be, self.contraction.apply(be, active), y, self.back, self.ending)
