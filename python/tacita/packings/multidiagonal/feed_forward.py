"""Feed-forward block on diagonals: expand, activate, contract plus the residual. Three stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacita.approx.spec import Spec
from tacita.packings.arrays import Array
from tacita.packings.multidiagonal.layout import Features
from tacita.packings.multidiagonal.linear import Affine, residual
from tacita.packings.stored import Stored, apply, output_bound
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class FeedForward:
    """layout: of input and residual. back: factor of the stored residual in the stored sum."""

    layout: Features
    activation: Spec
    back: float
    centred: bool
    expansion: Affine
    contraction: Affine

    @staticmethod
    def build(
        weights: Sequence[Array],
        layout: Features,
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
        inner, form = layout.inner(up.shape[0]), Stored.input_of(activation)
        scale = output_bound(activation) / exit
        wide, moved = up * (entry * form.scale), up_bias * form.scale + form.offset
        return FeedForward(
            layout=layout,
            activation=activation,
            back=residual / exit,
            centred=centred,
            expansion=Affine(wide, moved, layout, inner),
            contraction=Affine.summed(down * scale, down_bias / exit, inner, layout, centred=centred),
        )

    def expand(self, be: Backend, y: Cts) -> Cts:
        """y / entry -> inner features stored for the activation. One level."""
        return self.expansion.apply(be, y)

    def activate(self, be: Backend, inner: Cts) -> Cts:
        """f(inner) / its largest value. Levels: the spec's."""
        scale = 1.0 / output_bound(self.activation)
        return tuple(apply(be, ct, self.activation, scale) for ct in inner)

    def contract(self, be: Backend, y: Cts, active: Cts) -> Cts:
        """(W2 active + y) / exit, centred or not. One level below active and y, the residual."""
        out = self.contraction.apply(be, active)
        back = residual(be, y, self.layout, self.back, centred=self.centred)
        return tuple(be.add(a, b) for a, b in zip(out, back, strict=True))
