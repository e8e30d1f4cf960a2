"""From the pooled vector of one text to the ciphertexts of its answer, laid out as `response` says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacita.approx.spec import Spec
from tacita.packings.rows.layout import Array, Diagonal, FeatureLayout, rotate_sum
from tacita.packings.rows.response import RowsResponse
from tacita.packings.rows.vectors.vector import VectorLayout
from tacita.packings.sizes import refuse
from tacita.packings.stored import Stored, output_bound
from tacita.slots.base import Backend, Ct
from tacita.slots.linear import LinearPlan

Cts = tuple[Ct, ...]


@dataclass(frozen=True, eq=False)
class Answering:
    """Pooled vector -> response ciphertexts. plan: one ciphertext (logits) or one per pooled ciphertext.

    width: slots to sum over for a logit, 1 for none. keep, bias: cut the sums out, add the bias.
    """

    response: RowsResponse
    plan: LinearPlan
    width: int
    keep: tuple[Array, ...]
    bias: tuple[Array, ...]

    @staticmethod
    def logits(weight: Array, bias: Array, layout: FeatureLayout, entry: float, bound: float) -> Answering:
        """From rows packing. weight (classes, hidden). entry: bound of the pooled vector at token 0; bound:
        of the logits. Two levels. Token t holds the products of row t, then row t again; a sum over positions
        leaves logit t at position 0. Errors: ShapeError for more classes than tokens hold twice.
        """
        shape = layout.shape
        diagonals: Diagonal = {}
        for i in range(layout.count):
            for t, row in enumerate(np.vstack([weight, weight]) * (entry / bound)):
                at = np.where(layout.home[i] >= 0, row[layout.home[i]], 0.0)
                diagonals[0, i, -t * shape.window] = _block(at, t, shape.slots)
        return _logits(diagonals, layout.count, bias, bound, shape.window, shape.slots)

    @staticmethod
    def vector_logits(
        weight: Array, bias: Array, layout: VectorLayout, entry: float, bound: float
    ) -> Answering:
        """From vector packing, as `logits`: period t in place of token t, without rotations."""
        rows = np.vstack([weight, weight]) * (entry / bound)
        if len(rows) * layout.period > layout.slots:
            raise refuse("vector", f"{len(weight)} classes", "use a larger ring")
        flat = np.concatenate(
            [*(layout.vector(row) for row in rows), np.zeros(layout.slots - rows.shape[0] * layout.period)]
        )
        return _logits({(0, 0, 0): flat}, 1, bias, bound, layout.period, layout.slots)

    @staticmethod
    def features(layout: FeatureLayout, entry: float) -> Answering:
        """The pooled vector itself, at tokens 0 and 1; the check at token 2. entry: its bound. One level."""
        shape = layout.shape
        diagonals: Diagonal = {}
        for i in range(layout.count):
            inside = np.where(layout.home[i] >= 0, 1.0, 0.0)
            diagonals[i, i, 0] = _block(inside, 0, shape.slots)
            diagonals[i, i, -shape.window] = _block(inside, 1, shape.slots)
        return _features(diagonals, RowsResponse(shape.slots, shape.window, layout.size, False, entry))

    @staticmethod
    def vector_features(layout: VectorLayout, entry: float) -> Answering:
        """As `features`, from vector packing: at periods 0 and 1; the check at period 2."""
        inside = layout.vector(np.ones(layout.size))
        response = RowsResponse(layout.slots, layout.period, layout.size, False, entry)
        response.check()
        both = _block(inside, 0, layout.slots) + _block(inside, 1, layout.slots)
        return _features({(0, 0, 0): both}, response)

    def apply(self, be: Backend, pooled: Cts, check: Ct) -> Cts:
        """pooled / entry, and the norm check of `norm_check` -> the response."""
        out = be.linear(pooled, self.plan)
        if self.keep:
            out = [
                be.add_vector(be.mul_vector(rotate_sum(be, out[0], self.width), self.keep[0]), self.bias[0])
            ]
        out[0] = be.add(out[0], be.rotate(check, -self.response.check_place[1]))
        return tuple(out)


def _logits(diagonals: Diagonal, inputs: int, bias: Array, bound: float, width: int, slots: int) -> Answering:
    """width: slots of one block, at whose first slot a logit is left."""
    response = RowsResponse(slots, width, len(bias), True, bound)
    response.check()
    plan = LinearPlan.from_diagonals(diagonals, n_inputs=inputs, n_outputs=1, split="giant")
    keep, offset = np.zeros((2, slots))
    at = [slot for _, slot in (*response.places, *response.copies)]
    keep[at], offset[at] = 1.0, np.tile(bias, 2) / bound
    return Answering(response, plan, width, (keep,), (offset,))


def _features(diagonals: Diagonal, response: RowsResponse) -> Answering:
    """Ciphertexts in, as many out."""
    plan = LinearPlan.from_diagonals(
        diagonals, n_inputs=response.count, n_outputs=response.count, split="baby"
    )
    return Answering(response, plan, 1, (), ())


def _block(v: Array, number: int, slots: int) -> Array:
    """Slot vector with v as block `number`, zero elsewhere."""
    out = np.zeros(slots)
    out[number * v.size : (number + 1) * v.size] = v
    return out


def norm_check(be: Backend, variance: Ct, root: Ct, rsqrt: Spec) -> Ct:
    """Half of variance * root^2 at slot 0 (token 0), zero elsewhere; 1/2 inside the interval.

    variance: stored for rsqrt. root: 1/sqrt(variance) / its largest value. Levels: two below variance, root.
    """
    form, top = Stored.input_of(rsqrt), output_bound(rsqrt)
    at_zero = np.zeros(be.slots)
    at_zero[0] = 0.5 * top**2 / form.scale
    moved = be.add_const(variance, -form.offset) if form.offset else variance
    return be.mul(be.mul_vector(moved, at_zero), be.square(root))
