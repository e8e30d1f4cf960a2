"""A feed-forward block on coefficients: arrange, activate, contract, restore. Four stages.

    y in rows -> turned; W1 y + b1, refreshed through the activation -> active;
    [R | W2] (residual, active) + b2, refreshed -> summed; turned back -> the sum in rows

R is the residual branch as a matrix, without the mean where a norm follows: it costs one more ciphertext of
slots-to-coefficients and no level, so the sum is fresh whatever is left of the residual.
"""

from __future__ import annotations

from dataclasses import replace

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


def coefficient_operations(
    plan: ForwardPlan,
    linear: Linear[FeatureLayout],
    activation: FourierSpec,
    name: str,
    x: str,
    residual: str,
    target: str,
) -> list[Operation]:
    """The stages of the block: two products of coefficients and what goes to and from them.

        arrange     rows -> turned                                                 1 level
        activate    f(inner) / its largest value, at the level of the next product from level 1
        contract    half of the sum, turned, which `Transposition.back` doubles    from level 1, to the top
        restore     the sum in rows: as a norm takes it, or complete               1 level

    x, residual, target: live tensors; the sum goes into the target.
    """
    layout, transposition = linear.layout, Transposition(linear.layout.shape)
    tokens, places = layout.shape.tokens, transposition.features(layout)
    low, high = activation.domain
    middle, reach = 0.5 * (low + high), 0.5 * (high - low)
    up, shift = plan.entry.fold(*plan.wide)
    first = CoefficientMatrix(tokens, _inputs(up / reach, places), (shift - middle) / reach)
    down, added = plan.contraction
    both = np.hstack([plan.output.fold_residual(len(down)), down])
    second = CoefficientMatrix(tokens, *_outputs(both, added, places, layout))
    harmonics = activation.harmonics / output_bound(activation)  # its argument is the domain as [-1, 1]

    def activate(be: Backend, turned: Cts) -> Cts:
        return tuple(be.coefficient_product(turned, first, harmonics, INPUT_LEVEL))

    def contract(be: Backend, residual: Cts, active: Cts) -> Cts:
        return tuple(be.coefficient_product((*residual, *active), second))

    def restore(be: Backend, total: Cts) -> Cts:
        back = transposition.back(be, total)
        return linear.complete(be, back, layout) if plan.output.complete else back

    turned, active, total = f"{name}.turned", f"{name}.active", f"{name}.total"
    arranged = [(f"{name}.arrange", x, turned)]
    if residual != x:
        arranged.append((f"{name}.arrange_residual", residual, f"{name}.residual"))
    products = (
        Operation.of(f"{name}.activate", (turned,), active, activate),
        Operation.of(f"{name}.contract", (arranged[-1][2], active), total, contract),
    )
    return [
        *(
            _complex(Operation.of(stage, (rows,), to, transposition.forward), to)
            for stage, rows, to in arranged
        ),
        *(
            replace(_complex(one, to), refreshes=True)
            for one, to in zip(products, (active, total), strict=True)
        ),
        Operation.of(f"{name}.restore", (total,), target, restore),
    ]


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
        plan, names = self._forward_plan(block, f, target), (block.name, block.x.live, block.residual.live)
        return coefficient_operations(plan, self._of_tokens, activation, *names, target.live)
