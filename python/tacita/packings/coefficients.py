"""A feed-forward block on coefficients: arrange, activate, contract, restore. Four stages.

    y in rows -> turned; W1 y + b1, refreshed through the activation -> active;
    [R | W2] (residual, active) + b2, refreshed -> summed; turned back -> the sum in rows

R is the residual branch as a matrix, without the mean where a norm follows: it costs one more ciphertext of
slots-to-coefficients and no level, so the sum is fresh whatever is left of the residual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tacita.approx.fourier import FourierSpec
from tacita.blocks.base import FeedForward
from tacita.layouts.arrays import Array, IntArray
from tacita.layouts.coefficients import Transposition
from tacita.layouts.rows import FeatureLayout
from tacita.packings.base import Block, Operation, Target
from tacita.packings.encoding import output_bound
from tacita.packings.rows.lowering import RowLowering
from tacita.packings.shared.linear import Linear
from tacita.packings.weights import ForwardPlan
from tacita.slots.base import Backend, Cts
from tacita.slots.bootstraps import INPUT_LEVEL, CoefficientMatrix

Places = tuple[IntArray, IntArray, int]  # of `Transposition.features`


@dataclass(frozen=True, eq=False)
class CoefficientForward:
    """The block's products of coefficients, and the activation between them. harmonics: of the activation
    divided by its largest value, its argument the domain as [-1, 1].

    first: from turned rows to inner features; second: from turned rows and those to half of the turned sum,
    which `Transposition.back` doubles.
    """

    transposition: Transposition
    linear: Linear[FeatureLayout]
    harmonics: Array
    first: CoefficientMatrix
    second: CoefficientMatrix
    complete: bool

    @staticmethod
    def build(
        plan: ForwardPlan, linear: Linear[FeatureLayout], activation: FourierSpec
    ) -> CoefficientForward:
        """Builds both products."""
        transposition, bound = Transposition(linear.layout.shape), output_bound(activation)
        tokens, places = transposition.shape.tokens, transposition.features(linear.layout)
        (low, high) = activation.domain
        middle, reach = 0.5 * (low + high), 0.5 * (high - low)
        up, shift = plan.entry.fold(*plan.wide)
        wide = _inputs(up / reach, places)
        down, added = plan.contraction
        both = np.hstack([plan.output.fold_residual(len(down)), down])
        narrow, bias = _outputs(both, added, places, linear.layout)
        return CoefficientForward(
            transposition,
            linear,
            activation.harmonics / bound,
            CoefficientMatrix(tokens, wide, (shift - middle) / reach),
            CoefficientMatrix(tokens, narrow, bias),
            plan.output.complete,
        )

    def arrange(self, be: Backend, y: Cts) -> Cts:
        """Rows -> turned. One level."""
        return self.transposition.forward(be, y)

    def activate(self, be: Backend, turned: Cts) -> Cts:
        """f(inner) / its largest value, at the level that the next product takes. From level 1."""
        return tuple(be.coefficient_product(turned, self.first, self.harmonics, INPUT_LEVEL))

    def contract(self, be: Backend, residual: Cts, active: Cts) -> Cts:
        """Half of the sum, turned, at the top. residual: turned. Both from level 1."""
        return tuple(be.coefficient_product((*residual, *active), self.second))

    def restore(self, be: Backend, total: Cts) -> Cts:
        """The sum in rows: as a norm takes it, or complete. One level."""
        back = self.transposition.back(be, total)
        return self.linear.complete(be, back, self.linear.layout) if self.complete else back

    def operations(self, name: str, x: str, residual: str, target: str) -> list[Operation]:
        """The four stages of the block. x, residual, target: live tensors; the sum goes into the target."""
        turned, active, total = f"{name}.turned", f"{name}.active", f"{name}.total"
        back = turned if residual == x else f"{name}.residual"
        stages = [_complex(Operation.of(f"{name}.arrange", (x,), turned, self.arrange), turned)]
        if back != turned:
            more = Operation.of(f"{name}.arrange_residual", (residual,), back, self.arrange)
            stages.append(_complex(more, back))
        activate = Operation.of(f"{name}.activate", (turned,), active, self.activate)
        contract = Operation.of(f"{name}.contract", (back, active), total, self.contract)
        stages += [
            replace(_complex(operation, tensor), refreshes=True)
            for operation, tensor in ((activate, active), (contract, total))
        ]
        return [*stages, Operation.of(f"{name}.restore", (total,), target, self.restore)]


def _complex(operation: Operation, tensor: str) -> Operation:
    return replace(operation, complex_outputs=frozenset({tensor}))


def _inputs(matrix: Array, places: Places) -> Array:
    """Moves a matrix's columns to turned rows: (outputs, hidden) -> (outputs, features of turned rows)."""
    features, there, size = places
    columns = np.zeros((len(matrix), size))
    columns[:, there] = matrix[:, features]
    return columns


def _outputs(both: Array, shift: Array, places: Places, layout: FeatureLayout) -> tuple[Array, Array]:
    """[R | W] (hidden, hidden + inner) and a bias -> half of both, from whole ciphertexts of turned rows and
    those of inner features to turned rows."""
    features, there, size = places
    first = 2 * layout.shape.window * layout.count
    columns = _inputs(both[:, : layout.size], (features, there, first))
    matrix, bias = np.zeros((size, first + both.shape[1] - layout.size)), np.zeros(size)
    matrix[there] = 0.5 * np.hstack([columns, both[:, layout.size :]])[features]
    bias[there] = 0.5 * shift[features]
    return matrix, bias


# The blocks of one text in rows, feed-forward blocks of all tokens by products of coefficients.
#
# A block goes so where its activation is computed by a bootstrap, which is what follows a product of
# coefficients; a block of one vector, one whose activation is a polynomial, and one with a gate, whose
# product is of slots, stay in rows.


class CoefficientLowering(RowLowering):
    """The blocks of one text in rows (`RowLowering`), with products of coefficients for feed-forward blocks
    whose activation a bootstrap computes."""

    packing = "coefficients"

    def _feed_forward(self, block: Block, f: FeedForward, target: Target) -> list[Operation]:
        activation = self._specs.function(block.name).function
        if block.x.form.first or f.gate or not isinstance(activation, FourierSpec):
            return super()._feed_forward(block, f, target)
        plan = self._forward_plan(block, f, target)
        forward = CoefficientForward.build(plan, self._of_tokens, activation)
        return forward.operations(block.name, block.x.live, block.residual.live, target.live)
