"""Feed-forward block on a vector: expand, activate, contract plus the residual. Three stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacita.approx.spec import Spec
from tacita.packings.arrays import Array
from tacita.packings.stored import Stored, apply, output_bound
from tacita.packings.vector.layout import CyclicMap, VectorLayout
from tacita.packings.vector.norm import summand
from tacita.slots.base import Backend, Ct

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class VectorForward:
    """Feed-forward block in vector packing. back: factor of the stored residual in the stored sum."""

    layout: VectorLayout
    activation: Spec
    back: float
    centred: bool
    expansion: CyclicMap
    contraction: CyclicMap

    @staticmethod
    def build(
        weights: Sequence[Array],
        layout: VectorLayout,
        activation: Spec,
        entry: float,
        exit: float,
        *,
        residual: float | None = None,
        centred: bool = True,
    ) -> VectorForward:
        """weights: (intermediate, hidden), its bias, (hidden, intermediate), its bias, as in the checkpoint.

        entry, exit: bounds of the input and of the sum, which loses its mean if centred. residual: bound of
        the residual, by default the input's.
        """
        up, up_bias, down, down_bias = weights
        inner = VectorLayout(layout.slots, up.shape[0])
        form, scale = Stored.input_of(activation), output_bound(activation) / exit
        mean = (down.mean(axis=0), down_bias.mean()) if centred else (0.0, 0.0)
        narrow, shift = (down - mean[0]) * scale, (down_bias - mean[1]) / exit
        wide, moved = up * (entry * form.scale), up_bias * form.scale + form.offset
        return VectorForward(
            layout=layout,
            activation=activation,
            back=(entry if residual is None else residual) / exit,
            centred=centred,
            expansion=CyclicMap.build(wide, moved, [layout.index], [inner.index]),
            contraction=CyclicMap.build(narrow, shift, [inner.index], [layout.index]),
        )

    def expand(self, be: Backend, y: Cts) -> Cts:
        """y / entry -> inner features stored for the activation. One level."""
        return tuple(self.expansion.apply(be, list(y)))

    def activate(self, be: Backend, inner: Cts) -> Cts:
        """f(inner) / its largest value. Levels: the spec's."""
        return (apply(be, inner[0], self.activation, 1.0 / output_bound(self.activation)),)

    def contract(self, be: Backend, y: Cts, active: Cts) -> Cts:
        """(W2 active + y) / exit, centred or not. One level below active and y, the residual."""
        (out,) = self.contraction.apply(be, list(active))
        return (be.add(out, summand(be, y[0], self.layout, self.back, centred=self.centred)),)
