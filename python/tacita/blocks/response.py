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
from tacita.backends.base import Backend, Ct
from tacita.backends.linear import LinearPlan
from tacita.blocks.stored import Stored, output_bound
from tacita.packing.base import refuse
from tacita.packing.rows import Array, Diagonal, FeatureLayout, RowsShape, rotate_sum

Cts = tuple[Ct, ...]
Place = tuple[int, int]  # ciphertext, slot


@dataclass(frozen=True)
class Answer:
    """values: (size,). disagreement: largest difference between copies. leak: largest value where zero belongs.
    norm_check: 1 when the last LayerNorm worked inside its interval."""

    values: Array
    disagreement: float
    leak: float
    norm_check: float

    def sound(self, tolerance: float = 0.05) -> bool:
        """Whether the figures are those of a run that stayed in its calibrated intervals."""
        quiet = max(self.disagreement, self.leak) <= tolerance * max(1.0, float(np.max(np.abs(self.values))))
        return bool(quiet and abs(self.norm_check - 1.0) <= tolerance and np.all(np.isfinite(self.values)))


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

    def read(self, slots: Sequence[Array]) -> Answer:
        """Decoded ciphertexts -> the answer and its integrity figures."""
        table = np.stack(list(slots))
        answer, copies = (np.array([table[place].real for place in side]) for side in (self.places, self.copies))
        used = np.zeros(table.shape, dtype=bool)
        for place in (*self.places, *self.copies, self.check):
            used[place] = True
        return Answer(
            values=0.5 * (answer + copies) * self.bound,
            disagreement=float(np.max(np.abs(answer - copies))) * self.bound,
            leak=float(np.max(np.abs(table[~used]))) * self.bound,
            norm_check=2.0 * float(table[self.check].real),
        )


@dataclass(frozen=True, eq=False)
class Answering:
    """Pooled vector at token 0 -> response ciphertexts. plan: one ciphertext (logits) or one per pooled ciphertext."""

    response: ResponseLayout
    plan: LinearPlan
    sums: bool
    keep: tuple[Array, ...]
    bias: tuple[Array, ...]
    window: int

    @staticmethod
    def logits(weight: Array, bias: Array, layout: FeatureLayout, entry: float, bound: float) -> Answering:
        """weight (classes, hidden). entry: bound of the pooled vector; bound: of the logits. Two levels.

        Token t holds the products of row t, then row t again; a sum over positions leaves logit t at position 0.
        Errors: ShapeError for more classes than tokens hold twice.
        """
        shape, size = layout.shape, weight.shape[0]
        if 2 * size + 1 > shape.tokens:
            raise refuse("rows", f"{size} classes with {shape.tokens} tokens", "use at least 2*classes + 1 tokens")
        rows = np.vstack([weight, weight]) * (entry / bound)
        diagonals: Diagonal = {}
        for i in range(layout.count):
            for t, row in enumerate(rows):
                at = np.where(layout.home[i] >= 0, row[layout.home[i]], 0.0)
                diagonals[0, i, -t * shape.window] = _at_token(at, t, shape)
        plan = LinearPlan.from_diagonals(diagonals, n_inputs=layout.count, n_outputs=1, split="giant")
        slots = [t * shape.window for t in range(2 * size + 1)]
        places = [(0, s) for s in slots]
        response = ResponseLayout(1, tuple(places[:size]), tuple(places[size:-1]), places[-1], bound)
        keep, offset = np.zeros((2, shape.slots))
        keep[slots[:-1]], offset[slots[:-1]] = 1.0, np.tile(bias, 2) / bound
        return Answering(response, plan, True, (keep,), (offset,), shape.window)

    @staticmethod
    def features(layout: FeatureLayout, entry: float) -> Answering:
        """The pooled vector itself, at tokens 0 and 1; the check at token 2. entry: its bound. One level."""
        shape = layout.shape
        diagonals: Diagonal = {}
        places: list[tuple[int, int, int]] = []
        for i in range(layout.count):
            inside = np.where(layout.home[i] >= 0, 1.0, 0.0)
            diagonals[i, i, 0] = _at_token(inside, 0, shape)
            diagonals[i, i, -shape.window] = _at_token(inside, 1, shape)
            places += [(int(layout.home[i, p]), i, int(p)) for p in np.flatnonzero(inside)]
        plan = LinearPlan.from_diagonals(diagonals, n_inputs=layout.count, n_outputs=layout.count, split="baby")
        first = tuple((ct, slot) for _, ct, slot in sorted(places))
        second = tuple((ct, slot + shape.window) for ct, slot in first)
        response = ResponseLayout(layout.count, first, second, (0, 2 * shape.window), entry)
        return Answering(response, plan, False, (), (), shape.window)

    def apply(self, be: Backend, pooled: Cts, check: Ct) -> Cts:
        """pooled / entry, and the norm check of `norm_check` -> the response."""
        out = be.linear(pooled, self.plan)
        if self.sums:
            out = [be.add_vector(be.mul_vector(rotate_sum(be, out[0], self.window), self.keep[0]), self.bias[0])]
        out[0] = be.add(out[0], be.rotate(check, -self.response.check[1]))
        return tuple(out)


def _at_token(v: Array, token: int, shape: RowsShape) -> Array:
    rows = np.zeros((shape.tokens, shape.window))
    rows[token] = v
    return rows.reshape(-1)


def norm_check(be: Backend, variance: Ct, root: Ct, rsqrt: Spec, shape: RowsShape) -> Ct:
    """Half of variance * root^2 at slot 0 (token 0), zero elsewhere; 1/2 inside the interval.

    variance: stored for rsqrt. root: 1/sqrt(variance) / its largest value. Levels: two below variance, root.
    """
    form, top = Stored.input_of(rsqrt), output_bound(rsqrt)
    at_zero = np.zeros(shape.slots)
    at_zero[0] = 0.5 * top**2 / form.scale
    moved = be.add_const(variance, -form.offset) if form.offset else variance
    return be.mul(be.mul_vector(moved, at_zero), be.square(root))
