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
    """The map x -> scale * g (x W^T + b): weights `name`.weight (outputs, inputs) and `name`.bias (outputs,).

    bias: False where there is none. part: (k, n) for the k-th of n equal blocks of rows of both, as in
    checkpoints that keep queries, keys and values in one matrix. gain: name of a tensor (outputs,) that
    multiplies the result feature by feature (layer scale); empty for none. copies: of the tensor's inputs and
    of its outputs, of which `inputs` and `outputs` count all: see `graph.widened`.
    """

    name: str
    inputs: int
    outputs: int
    scale: float = 1.0
    bias: bool = True
    part: tuple[int, int] = (0, 1)
    gain: str = ""
    copies: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class Softmax:
    """Turns scores into weights exp(s_ij) / sum_j exp(s_ij) over the real keys."""


@dataclass(frozen=True)
class Powers:
    """Turns scores into weights (s_ij + offset)^power / (n * denominator) at n real keys: Powerformer's
    BPMax."""

    power: int
    offset: float
    denominator: float


@dataclass(frozen=True)
class Norm:
    """Normalises each row: (x - mean) / deviation * gamma + beta over the last axis; `name`.weight is gamma,
    `name`.bias beta.

    deviation: None for LayerNorm, sqrt(variance + epsilon); a number for what a retrained model stores.
    centred: False for RMSNorm, which takes no mean off. gamma, beta: False where there is none. scale:
    multiplies the result. copies: of the features, of which `size` counts all.
    """

    name: str
    size: int
    epsilon: float
    deviation: float | None = None
    centred: bool = True
    gamma: bool = True
    beta: bool = True
    scale: float = 1.0
    copies: int = 1


@dataclass(frozen=True)
class Rotary:
    """Rotary positions: feature i of the first half of a head and feature i of its second half turn, at token
    t, by t * scale_i * base^(-2i / head size) (RoFormer, arXiv 2104.09864, section 3.4, in Hugging Face's
    order).

    back: they turn the other way round, as where rows are reversed (`sequence.latest`). scales: from 0 to 1,
    one for each i, as models have that were trained on short texts first; empty for ones."""

    base: float
    back: bool = False
    scales: tuple[float, ...] = ()


@dataclass(frozen=True)
class Relative:
    """What is added to scaled scores by the distance of key and query: row bucket(j - i) of `table` (buckets,
    heads), buckets growing with the logarithm of the distance up to `distance` (T5, arXiv 1910.10683)."""

    table: str
    buckets: int
    distance: int


Reach = tuple[int | None, int | None]  # tokens back and ahead that a query sees; None: all
EVERYWHERE: Reach = (None, None)
CAUSAL: Reach = (None, 0)  # what decoders have: see `distances.visible`
BEHIND: Reach = (0, None)  # the same of reversed rows: see `sequence.latest`


@dataclass(frozen=True)
class Attention:
    """Multi-head attention with its output projection.

    Scores are divided by sqrt(head size). weights: what becomes of the scores. normed: normalises each head's
    queries and keys, as declared for both, before they turn. rotary, relative: positions inside the
    attention. reach: keys that a query sees beside itself: (64, 64) is a window, `CAUSAL` what decoders have.
    shared: how many neighbouring heads of queries share a head of keys and values (grouped heads).
    """

    heads: int
    query: Dense
    key: Dense
    value: Dense
    output: Dense
    weights: Softmax | Powers = field(default_factory=Softmax)
    normed: tuple[Norm, Norm] | None = None
    rotary: Rotary | None = None
    relative: Relative | None = None
    reach: Reach = EVERYWHERE
    shared: int = 1

    @property
    def key_heads(self) -> int:
        """Heads of keys and values."""
        return self.heads // self.shared

    @property
    def head_size(self) -> int:
        """Features of one head."""
        return self.query.outputs // self.heads


@dataclass(frozen=True)
class FeedForward:
    """The two-layer block: narrow(function(wide(x))), or with a gate narrow(function(gate(x)) * wide(x)).
    function: a name in `floats.FUNCTIONS`."""

    wide: Dense
    function: str
    narrow: Dense
    gate: Dense | None = None


@dataclass(frozen=True)
class Positions:
    """What is added to the words of a single text: row `first` + t of `table` at token t, and row 0 of
    `types`, if any."""

    table: str
    types: str | None
    size: int
    first: int = 0


class Blocks(Protocol[T, A_co]):
    """What a model is written in. Shapes are (..., tokens, features); names are those of nodes.

    An interpreter refuses an option that it does not know, with a PlanError, before anything runs.
    """

    def take(self, x: T, rows: int | None) -> T:
        """Returns the first rows (tokens) of x, or for a negative number the last ones; all for None."""

    def attention(self, x: T, a: Attention, name: str, rows: int | None = None) -> T:
        """Computes attention of the tokens that `take` gives, over all real tokens of x and those before x
        whose keys and values the interpreter holds (`past`). Only a causal attention can be asked by the last
        tokens."""

    def feed_forward(self, x: T, f: FeedForward, name: str) -> T:
        """Computes the two-layer block, token by token."""

    def norm(self, x: T, n: Norm, name: str) -> T:
        """Normalises each token."""

    def add(self, x: T, y: T, factor: float = 1.0) -> T:
        """Returns x + factor * y, of one shape. The factor is public."""

    def linear(self, x: T, d: Dense, name: str) -> T:
        """Computes a dense map, token by token."""

    def function(self, x: T, kind: str, name: str) -> T:
        """Computes a function by its name, number by number."""

    def mean(self, x: T, name: str) -> T:
        """Returns the mean over the real tokens: one row."""

    def positions(self, x: T, p: Positions, name: str) -> T:
        """Adds positions and token type 0 to the words."""

    def answer(self, x: T) -> A_co:
        """Ends the model with what the client learns."""
