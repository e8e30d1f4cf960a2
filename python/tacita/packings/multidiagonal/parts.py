"""The blocks of one text as operations on diagonals of all heads; what is not attention is that of
`one_text`.

The request is `hidden` and `mask` (1/length at real tokens: by token, then in the layout of the scores).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacita.blocks.graph import Graph
from tacita.blocks.weights import Weights
from tacita.layouts.multidiagonal import HIDDEN, MASK, DiagonalRequest, DiagonalResponse, Features
from tacita.packings.base import Block, Operation, Target, Tensor, heads_of
from tacita.packings.multidiagonal.attention import Attention
from tacita.packings.multidiagonal.first_token import FirstTokenAttention, Mean, selection
from tacita.packings.multidiagonal.linear import linear_of, over_heads, totals
from tacita.packings.one_text.linear import TextNorm
from tacita.packings.one_text.parts import Built, Form, NormFields, OneTextParts, Pair, roots_of
from tacita.packings.operations import exponentials, selected
from tacita.packings.specs import CircuitSpecs
from tacita.packings.vector.answer import Answering
from tacita.slots.base import Backend, Ct

# LayerNorm on diagonals (`one_text.norm`): sums over the features of each head, then over heads.


@dataclass(frozen=True, eq=False)
class Norm(TextNorm[Features]):
    """A norm on diagonals. layout: of input and result."""

    def variance(self, be: Backend, x: tuple[Ct, ...]) -> Ct:
        """Centred x / entry -> variance + epsilon stored for rsqrt, in every slot. 2 levels."""
        squares = be.dot(x, x) if len(x) > 1 else be.square(x[0])
        plan = over_heads(self.layout, self.scale, everywhere=True)
        (total,) = be.linear([totals(be, [squares], self.layout)], plan)
        return be.add_const(total, self.offset)


Cts = tuple[Ct, ...]


class DiagonalParts(OneTextParts[Features]):
    """The blocks of one text (`packings.base.Parts`) on diagonals. graph: of the model, whose tokens are the
    columns of all matrices.

    Raises ShapeError for sizes that the packing does not admit, PlanError for attentions of several kinds.
    """

    packing, answered = DiagonalResponse.tag, DiagonalResponse

    def __init__(self, graph: Graph, weights: Weights, specs: CircuitSpecs, slots: int, tokens: int) -> None:
        layout = Features.hidden(slots, tokens, *heads_of(graph, self.packing))
        super().__init__(graph, weights, specs, (slots, tokens), linear_of(layout))

    @property
    def fixed(self) -> frozenset[str]:
        """The masks."""
        return frozenset({MASK})

    def entry(self) -> Tensor[Form]:
        """The hidden states of the request, on diagonals."""
        return Tensor(HIDDEN, self._tokens, Form(self._specs.entry))

    def request(self) -> DiagonalRequest:
        """The layout of the request."""
        sizes = (self._slots, self._tokens, self._layout.size, *self._heads)
        return DiagonalRequest(*sizes, self._specs.entry, all_tokens=self._attended(self._tokens))

    def _norm(self, fields: NormFields, *, carry: bool) -> Norm:
        return Norm(self._layout, *fields)

    def _mean(self, x: Tensor[Form], dense: Pair | None, name: str) -> tuple[Operation, Answering]:
        """A mean becomes a vector before it is mapped."""
        return self._averaged(x, name), self._of_vector(dense, x.form.bound)

    def _averaged(self, x: Tensor[Form], name: str) -> Operation:
        return Operation.of(name, (x.live, MASK), name, Mean(self._layout).apply)

    def _token_response(self, size: int, bound: float) -> DiagonalResponse:
        shape = self._layout.shape
        sizes = (self._slots, shape.rows, size)
        return DiagonalResponse(*sizes, True, bound, self._tokens, shape.batch)

    def _all_tokens(self, name: str, block: Block[Form], target: Target, built: Built) -> list[Operation]:
        x, residual, attention = block.x.live, block.residual.live, Attention.build(*built, self._layout)
        parts = ("scores", "exponentials", "context", "sums", "inverse")
        scores, exps, context, sums, inverse = (f"{name}.{part}" for part in parts)
        phase = _first_phase(name, attention, slice(1, None))
        mixed_by, divisors = phase.result or exps, attention.sums(attention.specs.inverse)
        reads = (residual, context, inverse)
        normed, roots = roots_of(built, name, (x,), attention.squares)
        return [
            *normed,
            Operation.of(f"{name}.scores", (x, *roots), scores, attention.scores),
            exponentials(name, attention.specs.exp, attention.visible),
            *phase.operations,
            Operation.of(f"{name}.mix", (x, mixed_by, MASK), (context, sums), attention.mix),
            Operation.of(f"{name}.invert", (sums,), inverse, divisors.invert),
            Operation.of(f"{name}.project", reads, target.live, attention.project),
        ]

    def _first_token(self, name: str, block: Block[Form], target: Target, built: Built) -> list[Operation]:
        x, attention = block.x.live, FirstTokenAttention.build(*built, self._layout)
        parts = ("scores", "exponentials", "sums", "inverse")
        scores, exps, sums, inverse = (f"{name}.{part}" for part in parts)
        phase = _first_phase(name, attention, slice(1))
        mixed_by, divisors = phase.result or exps, attention.sums(attention.specs.inverse)
        select = selection(self._layout).apply
        chosen = selected(name, x, block.residual.live, select, select)
        reads = (x, mixed_by, inverse, chosen.back, MASK)
        normed, roots = roots_of(built, name, (x, chosen.first), attention.squares)
        return [
            chosen.operation,
            *normed,
            Operation.of(f"{name}.scores", (x, chosen.first, *roots), scores, attention.scores),
            exponentials(name, attention.specs.exp, attention.visible),
            *phase.operations,
            Operation.of(f"{name}.sums", (mixed_by, MASK), sums, attention.add_up),
            Operation.of(f"{name}.invert", (sums,), inverse, divisors.invert),
            Operation.of(f"{name}.project", reads, target.live, attention.project),
        ]


@dataclass(frozen=True)
class Phase:
    """Operations between exponentials and what is mixed in their place; none, and no name, for one phase."""

    operations: Sequence[Operation] = ()
    result: str = ""


def _first_phase(name: str, attention: Attention | FirstTokenAttention, masks: slice) -> Phase:
    """The first phase of a softmax in two phases; no operations for one phase. masks: those of the request in
    the layout of the scores."""
    phases = attention.specs.phases
    if phases is None:
        return Phase()
    sums = attention.sums(phases.first, phases.steepest, phases.room)
    parts = ("exponentials", "halves", "half_inverse", "squares")
    exps, halves, inverse, squares = (f"{name}.{part}" for part in parts)

    def add_up(be: Backend, exps: Cts, all_masks: Cts) -> Cts:
        return (sums.masked(be, exps, all_masks[masks]),)

    def square(be: Backend, exps: Cts, inverse: Cts, all_masks: Cts) -> Cts:
        return sums.squares(be, exps, all_masks[masks], inverse[0])

    operations = (
        Operation.of(halves, (exps, MASK), halves, add_up),
        Operation.of(inverse, (halves,), inverse, sums.invert),
        Operation.of(squares, (exps, inverse, MASK), squares, square),
    )
    return Phase(operations, squares)
