"""The language of models: blocks, their options, and what an interpreter of them offers.

A model says what happens to its hidden states, once, and every interpreter makes of it what it is for:

    def forward(b: Blocks[T, A], m: Tiny, x: T) -> A:
        x = b.add(x, b.attention(b.norm(x, m.norm, "norm"), m.attention, "attention"))
        return b.answer(b.linear(b.take(x, 1), m.classifier, "classifier"))

The declarations below hold names and sizes and no weights: an interpreter that computes looks its weights up
by these names, and a client, which has none, walks the same way. The second name, that of a *node*
("attention" above), is the key of everything that is stored about a step: intervals, approximations,
bounds, costs. It is unique in a model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar

T = TypeVar("T")  # a tensor of the interpreter
A_co = TypeVar("A_co", covariant=True)  # its answer


@dataclass(frozen=True)
class Dense:
    """x -> scale * (x W^T + b): weights `name`.weight (outputs, inputs) and `name`.bias (outputs,)."""

    name: str
    inputs: int
    outputs: int
    scale: float = 1.0


@dataclass(frozen=True)
class Softmax:
    """Weights exp(s_ij) / sum_j exp(s_ij) over the real keys."""


@dataclass(frozen=True)
class Powers:
    """Weights (s_ij + offset)^power / (n * denominator) at n real keys: Powerformer's BPMax."""

    power: int
    offset: float
    denominator: float


@dataclass(frozen=True)
class Attention:
    """Multi-head attention with its output projection.

    Scores are divided by sqrt(head size). weights: what becomes of the scores.
    """

    heads: int
    query: Dense
    key: Dense
    value: Dense
    output: Dense
    weights: Softmax | Powers = field(default_factory=Softmax)

    @property
    def head_size(self) -> int:
        """Features of one head."""
        return self.query.outputs // self.heads


@dataclass(frozen=True)
class FeedForward:
    """narrow(function(wide(x))). function: a name in `floats.FUNCTIONS`."""

    wide: Dense
    function: str
    narrow: Dense


@dataclass(frozen=True)
class Norm:
    """(x - mean) / deviation * gamma + beta over the last axis; `name`.weight is gamma, `name`.bias beta.

    deviation: None for LayerNorm, sqrt(variance + epsilon); a number for what a retrained model stores.
    """

    name: str
    size: int
    epsilon: float
    deviation: float | None = None


@dataclass(frozen=True)
class Positions:
    """What is added to the words of a single text: row t of `table` at token t, and row 0 of `types`, if
    any."""

    table: str
    types: str | None
    size: int


class Blocks(Protocol[T, A_co]):
    """What a model is written in. Shapes are (..., tokens, features); names are those of nodes.

    An interpreter refuses an option that it does not know, with a PlanError, before anything runs.
    """

    def take(self, x: T, rows: int | None) -> T:
        """The first rows (tokens) of x; all for None."""

    def attention(self, x: T, a: Attention, name: str, rows: int | None = None) -> T:
        """Attention of the first `rows` tokens, or of all, over all real tokens of x."""

    def feed_forward(self, x: T, f: FeedForward, name: str) -> T:
        """The two-layer block, token by token."""

    def norm(self, x: T, n: Norm, name: str) -> T:
        """Normalises each token."""

    def add(self, x: T, y: T) -> T:
        """x + y, of one shape."""

    def linear(self, x: T, d: Dense, name: str) -> T:
        """A dense map, token by token."""

    def function(self, x: T, kind: str, name: str) -> T:
        """A function by name, number by number."""

    def mean(self, x: T, name: str) -> T:
        """The mean over the real tokens: one row."""

    def positions(self, x: T, p: Positions, name: str) -> T:
        """Words plus positions and token type 0."""

    def answer(self, x: T) -> A_co:
        """What the client learns; the last step of a model."""
