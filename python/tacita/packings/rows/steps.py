"""The blocks of a decoder's step as operations: one new row, behind rows that were kept of earlier tokens.

What an attention reads, the norm's result before it, is kept of every layer, in rows, the last token first:

    layer i:  kept rows turned by one row, the new one in the free place     1 level below the new one
              attention of one query over them, as a last layer has it (`rows.first_token`)
              the rest of the layer on a vector

Rows in reverse know distances alone, so one circuit serves all steps. Two stages of an attention take the
turned rows, at levels of their own; the higher ones are left for the next step, at the level at which it
takes them. So nothing drains, however many steps follow.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tacita.blocks.shapes import NORMED
from tacita.layouts.arrays import Array
from tacita.layouts.numbered import tensor_of
from tacita.layouts.rows import FeatureLayout
from tacita.layouts.runs import HIDDEN, MASK, Request
from tacita.packings.base import Block, Kept, Operation, Target, Tensor
from tacita.packings.encoding import Encoding
from tacita.packings.rows.division import Exponentials
from tacita.packings.rows.first_token import FirstTokenAttention
from tacita.packings.rows.lowering import RowLowering
from tacita.packings.shared.lowering import Form
from tacita.packings.weights import AttentionPlan
from tacita.slots.base import Backend, Ct
from tacita.slots.stage import Live

Cts = tuple[Ct, ...]


class StepLowering(RowLowering):
    """Rows, of which one is new. Its tensors are vectors, and attention reads the kept rows besides.

    graph: of the model at one token; shape: of the whole text.
    """

    options: ClassVar[frozenset[str]] = RowLowering.options - {NORMED}

    @property
    def kept(self) -> tuple[Kept, ...]:
        """What the server keeps from step to step: the rows that each attention reads."""
        nodes = (step.name for step in self._graph.steps if step.op == "attention")
        return tuple(kept_of(node, self._layout.count) for node in nodes)

    def entry(self) -> Tensor[Form]:
        """The hidden state of the new row, as a vector."""
        return Tensor(HIDDEN, 1, Form(Encoding(self._specs.entry), first=True))

    def request(self) -> Request:
        """The layout of the request: the newest row of a text as a vector, which is given whole and in
        reverse as in every packing, and the mask of all its rows."""

        def newest(x: Array) -> list[Array]:
            return [self._vector.pack(x[0])]

        hidden = tensor_of(HIDDEN, (self._tokens, self._layout.size), self._slots, newest)
        return self._request(
            {HIDDEN: hidden, MASK: tensor_of(MASK, (self._tokens,), self._slots, self._plain)}
        )

    def _first_token(self, block: Block[Form], target: Target, plan: AttentionPlan) -> list[Operation]:
        name, x = block.name, block.x.live
        cache = kept_of(name, self._layout.count)
        attention = FirstTokenAttention(plan, self._layout, self._windows)
        parts = ("scores", "context", "sums", "attended")
        scores, context, sums, attended = (f"{name}.{part}" for part in parts)
        exponential = Exponentials.of(name, plan.specs.exp, attention.early, attention.visible)

        def score(be: Backend, live: Live) -> Live:
            rows = self._later(be, live, cache, x)
            return {scores: attention.scores(be, rows, live[x]), cache.after: rows}

        def mix(be: Backend, live: Live) -> Live:
            rows = self._later(be, live, cache, x)
            results = attention.mix(be, rows, exponential.evaluate(be, live), live[MASK])
            return {context: results[0], sums: results[1], cache.after: _higher(be, rows, live[cache.after])}

        return [
            Operation(f"{name}.scores", (x, cache.before), score),
            *exponential.stages,
            Operation(f"{name}.mix", (x, cache.before, exponential.read), mix),
            Operation.of(f"{name}.attend", (context, sums), attended, attention.attend),
            Operation.of(f"{name}.project", (block.residual.live, attended), target.live, attention.project),
        ]

    def _later(self, be: Backend, live: Live, kept: Kept, x: str) -> Cts:
        return later(be, live[kept.before], live[x][0], self._layout, self._slots)


def kept_of(node: str, count: int) -> Kept:
    """The rows that an attention reads, so many ciphertexts."""
    return Kept(f"{node}.rows", f"{node}.later", count)


def later(be: Backend, kept: Cts, new: Ct, layout: FeatureLayout, slots: int) -> Cts:
    """Kept rows and a new vector -> the rows of the next text: row t is row t - 1 of before, row 0 the
    vector. One level below the vector. What was the last row must have been zero. Cost: two rotations a
    ciphertext."""
    window, shifted = layout.shape.window, []
    for number, (ct, features) in enumerate(zip(kept, layout.index, strict=True)):
        first = np.zeros(slots)
        first[:window] = features >= 0
        placed = be.mul_vector(be.rotate(new, number * window), first)
        rows = be.drop_to(ct, min(be.level(ct), be.level(placed)))
        shifted.append(be.add(be.rotate(rows, -window), placed))
    return tuple(shifted)


def _higher(be: Backend, one: Cts, other: Cts) -> Cts:
    """The rows at the higher level, of equal ones the other."""
    return one if be.level(one[0]) > be.level(other[0]) else other
