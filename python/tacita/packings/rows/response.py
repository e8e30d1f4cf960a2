"""The answer ciphertexts: the numbers, a second copy of them, zeros, and a check of the last LayerNorm.

A client can thereby tell a broken decode from an answer. Copies that differ or zeros that are not show a wrong key,
overflow or damage. The norm check is variance * (1/sqrt(variance))^2 of the last LayerNorm at the first token: it is 1
as long as that variance lies in its calibrated interval, which an explosion anywhere before it spoils.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacita.approx.spec import Spec
from tacita.packings.response import Answer
from tacita.packings.rows.layout import Array, Diagonal, FeatureLayout, rotate_sum
from tacita.packings.rows.vector import VectorLayout
from tacita.packings.sizes import refuse
from tacita.packings.stored import Stored, output_bound
from tacita.slots.base import Backend, Ct
from tacita.slots.linear import LinearPlan

Cts = tuple[Ct, ...]
Place = tuple[int, int]  # ciphertext, slot


@dataclass(frozen=True)
class ResponseLayout:
    """Where the answer is, in `count` real ciphertexts; slots not named must decode to about zero.

    places, copies: (ciphertext, slot) of each number and of its second copy, both / bound. check: holds half the
    norm check.
    """

    count: int
    places: tuple[Place, ...]
    copies: tuple[Place, ...]
    check: Place
    bound: float

    @property
    def size(self) -> int:
        """Numbers in the answer."""
        return len(self.places)

    def read(self, slots: Sequence[Array]) -> list[Answer]:
        """Decoded ciphertexts -> the one answer and its integrity figures."""
        table = np.stack(list(slots))
        answer, copies = (np.array([table[place].real for place in side]) for side in (self.places, self.copies))
        used = np.zeros(table.shape, dtype=bool)
        for place in (*self.places, *self.copies, self.check):
            used[place] = True
        found = Answer(
            values=0.5 * (answer + copies) * self.bound,
            disagreement=float(np.max(np.abs(answer - copies))) * self.bound,
            leak=float(np.max(np.abs(table[~used]))) * self.bound,
            norm_check=2.0 * float(table[self.check].real),
        )
        return [found]


@dataclass(frozen=True, eq=False)
class Answering:
    """Pooled vector -> response ciphertexts. plan: one ciphertext (logits) or one per pooled ciphertext.

    width: slots to sum over for a logit, 1 for none. keep, bias: cut the sums out, add the bias.
    """

    response: ResponseLayout
    plan: LinearPlan
    width: int
    keep: tuple[Array, ...]
    bias: tuple[Array, ...]

    @staticmethod
    def logits(weight: Array, bias: Array, layout: FeatureLayout, entry: float, bound: float) -> Answering:
        """From rows packing. weight (classes, hidden). entry: bound of the pooled vector at token 0; bound: of the
        logits. Two levels. Token t holds the products of row t, then row t again; a sum over positions leaves logit t
        at position 0. Errors: ShapeError for more classes than tokens hold twice.
        """
        shape = layout.shape
        diagonals: Diagonal = {}
        for i in range(layout.count):
            for t, row in enumerate(np.vstack([weight, weight]) * (entry / bound)):
                at = np.where(layout.home[i] >= 0, row[layout.home[i]], 0.0)
                diagonals[0, i, -t * shape.window] = _block(at, t, shape.slots)
        return _logits(diagonals, layout.count, bias, bound, shape.window, shape.slots)

    @staticmethod
    def vector_logits(weight: Array, bias: Array, layout: VectorLayout, entry: float, bound: float) -> Answering:
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
        places: list[tuple[int, int, int]] = []
        for i in range(layout.count):
            inside = np.where(layout.home[i] >= 0, 1.0, 0.0)
            diagonals[i, i, 0] = _block(inside, 0, shape.slots)
            diagonals[i, i, -shape.window] = _block(inside, 1, shape.slots)
            places += [(int(layout.home[i, p]), i, int(p)) for p in np.flatnonzero(inside)]
        return _features(diagonals, places, layout.count, entry, shape.window)

    @staticmethod
    def vector_features(layout: VectorLayout, entry: float) -> Answering:
        """As `features`, from vector packing: at periods 0 and 1; the check at period 2."""
        inside = layout.vector(np.ones(layout.size))
        if 3 * layout.period > layout.slots:
            raise refuse("vector", f"an answer of {layout.size} numbers in {layout.slots} slots", "use a larger ring")
        both = _block(inside, 0, layout.slots) + _block(inside, 1, layout.slots)
        places = [(f, 0, f) for f in range(layout.size)]
        return _features({(0, 0, 0): both}, places, 1, entry, layout.period)

    def apply(self, be: Backend, pooled: Cts, check: Ct) -> Cts:
        """pooled / entry, and the norm check of `norm_check` -> the response."""
        out = be.linear(pooled, self.plan)
        if self.keep:
            out = [be.add_vector(be.mul_vector(rotate_sum(be, out[0], self.width), self.keep[0]), self.bias[0])]
        out[0] = be.add(out[0], be.rotate(check, -self.response.check[1]))
        return tuple(out)


def _logits(diagonals: Diagonal, inputs: int, bias: Array, bound: float, width: int, slots: int) -> Answering:
    """width: slots of one block, at whose first slot a logit is left."""
    size = len(bias)
    if (2 * size + 1) * width > slots:
        raise refuse("answer", f"{size} classes in {slots // width} blocks", "use 2*classes + 1 tokens or more")
    plan = LinearPlan.from_diagonals(diagonals, n_inputs=inputs, n_outputs=1, split="giant")
    places = [(0, t * width) for t in range(2 * size + 1)]
    response = ResponseLayout(1, tuple(places[:size]), tuple(places[size:-1]), places[-1], bound)
    keep, offset = np.zeros((2, slots))
    at = [slot for _, slot in places[:-1]]
    keep[at], offset[at] = 1.0, np.tile(bias, 2) / bound
    return Answering(response, plan, width, (keep,), (offset,))


def _features(
    diagonals: Diagonal, places: list[tuple[int, int, int]], count: int, entry: float, width: int
) -> Answering:
    """places: (feature, ciphertext, slot). width: slots of one block; blocks 0 and 1 hold the answer, 2 the check."""
    plan = LinearPlan.from_diagonals(diagonals, n_inputs=count, n_outputs=count, split="baby")
    first = tuple((ct, slot) for _, ct, slot in sorted(places))
    second = tuple((ct, slot + width) for ct, slot in first)
    return Answering(ResponseLayout(count, first, second, (0, 2 * width), entry), plan, 1, (), ())


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
