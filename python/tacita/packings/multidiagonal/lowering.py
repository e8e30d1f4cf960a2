"""The blocks of one text as operations on diagonals of all heads; what is not attention is that of
`shared`.

The request is `hidden` and `mask` (1/length at real tokens: by token, then in the layout of the scores).
"""

from __future__ import annotations

from dataclasses import dataclass

from tacita.blocks.graph import Graph
from tacita.blocks.weights import Weights
from tacita.layouts.arrays import Array
from tacita.layouts.multidiagonal import Features, by_key, by_token
from tacita.layouts.numbered import tensor_of
from tacita.layouts.runs import HIDDEN, MASK, Request
from tacita.packings.base import Block, Operation, Target, Tensor, heads_of
from tacita.packings.encoding import Affine, Encoding
from tacita.packings.multidiagonal.attention import Attention, FirstTokenAttention, Mean, selection
from tacita.packings.multidiagonal.linear import linear_of, over_heads, totals
from tacita.packings.multidiagonal.softmax import first_phase
from tacita.packings.operations import Answering, exponentials, selected
from tacita.packings.shared.linear import TextNorm
from tacita.packings.shared.lowering import Form, NormFields, OneTextLowering
from tacita.packings.specs import CircuitSpecs
from tacita.packings.weights import AttentionPlan
from tacita.slots.base import Backend, Ct

# LayerNorm on diagonals (`shared.linear`): sums over the features of each head, then over heads.


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


class DiagonalLowering(OneTextLowering[Features]):
    """The blocks of one text (`packings.base.Lowering`) on diagonals. graph: of the model, whose tokens are
    the columns of all matrices.

    Raises ShapeError for sizes that the packing does not admit, PlanError for attentions of several kinds.
    """

    packing = "multidiagonal"

    def __init__(self, graph: Graph, weights: Weights, specs: CircuitSpecs, slots: int, tokens: int) -> None:
        layout = Features.hidden(slots, tokens, *heads_of(graph, self.packing))
        super().__init__(graph, weights, specs, (slots, tokens), linear_of(layout))

    @property
    def fixed(self) -> frozenset[str]:
        """The masks."""
        return frozenset({MASK})

    def entry(self) -> Tensor[Form]:
        """The hidden states of the request, on diagonals."""
        return Tensor(HIDDEN, self._tokens, Form(Encoding(self._specs.entry)))

    def request(self) -> Request:
        """The layout of the request. Where an attention has all tokens as queries, the plain mask is followed
        by masks in the layout of the scores."""
        layout, tokens = self._layout, self._tokens

        def masks(keep: Array) -> list[Array]:
            return [by_token(layout, keep), *(by_key(layout, keep) if self._asked(tokens) else [])]

        hidden = tensor_of(HIDDEN, (tokens, layout.size), self._slots, layout.pack)
        return self._request({HIDDEN: hidden, MASK: tensor_of(MASK, (tokens,), self._slots, masks)})

    def _token_norm(self, fields: NormFields, *, packed_first: bool) -> Norm:
        return Norm(*fields)

    def _mean_answer(self, x: Tensor[Form], dense: Affine | None, name: str) -> tuple[Operation, Answering]:
        """A mean becomes a vector before it is mapped."""
        return self._averaged(x, name), self._first_answer(x, dense)

    def _averaged(self, x: Tensor[Form], name: str) -> Operation:
        return Operation.of(name, (x.live, MASK), name, Mean(self._layout).apply)

    def _all_tokens(self, block: Block[Form], target: Target, plan: AttentionPlan) -> list[Operation]:
        name, x, residual = block.name, block.x.live, block.residual.live
        attention = Attention.build(plan, self._layout)
        parts = ("scores", "context", "sums", "inverse")
        scores, context, sums, inverse = (f"{name}.{part}" for part in parts)
        phase, divisors = (
            first_phase(name, plan.specs, attention.sums, MASK, slice(1, None)),
            attention.sums(),
        )
        reads = (residual, context, inverse)
        normed, roots = plan.roots(name, (x,), attention.squares)
        return [
            *normed,
            Operation.of(f"{name}.scores", (x, *roots), scores, attention.scores),
            exponentials(name, plan.specs.exp, attention.visible),
            *phase.operations,
            Operation.of(f"{name}.mix", (x, phase.result, MASK), (context, sums), attention.mix),
            Operation.of(f"{name}.invert", (sums,), inverse, divisors.invert),
            Operation.of(f"{name}.project", reads, target.live, attention.project),
        ]

    def _first_token(self, block: Block[Form], target: Target, plan: AttentionPlan) -> list[Operation]:
        name, x, attention = block.name, block.x.live, FirstTokenAttention(plan, self._layout)
        parts = ("scores", "sums", "inverse")
        scores, sums, inverse = (f"{name}.{part}" for part in parts)
        phase, divisors = first_phase(name, plan.specs, attention.sums, MASK, slice(1)), attention.sums()
        select = selection(self._layout).apply
        chosen = selected(name, x, block.residual.live, select, select)
        reads = (x, phase.result, inverse, chosen.back, MASK)
        normed, roots = plan.roots(name, (x, chosen.first), attention.squares)
        return [
            chosen.operation,
            *normed,
            Operation.of(f"{name}.scores", (x, chosen.first, *roots), scores, attention.scores),
            exponentials(name, plan.specs.exp, attention.visible),
            *phase.operations,
            Operation.of(f"{name}.sums", (phase.result, MASK), sums, attention.add_up),
            Operation.of(f"{name}.invert", (sums,), inverse, divisors.invert),
            Operation.of(f"{name}.project", reads, target.live, attention.project),
        ]
