"""A walk over a model that reads no weight: shapes of its tensors, and its nodes by name.

Options of blocks that not every interpreter has, by name: what one lacks is refused before anything runs.

>>> from tacita.blocks.base import Norm
>>> sorted(options(Norm("ln", 8, 1e-5))), sorted(options(Norm("rms", 8, 1e-5, centred=False)))
([], ['no mean'])
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tacita.blocks.base import EVERYWHERE, Attention, Dense, FeedForward, Norm, Positions
from tacita.errors import PlanError, ShapeError

Shape = tuple[int, int]  # rows, features


@dataclass(frozen=True)
class Function:
    """A function that is a node of its own."""

    kind: str


@dataclass(frozen=True)
class Mean:
    """The mean over the real tokens."""


def function_of(node: Node) -> str | None:
    """Returns the name of the function of a node that has one."""
    if isinstance(node, Function):
        return node.kind
    return node.function if isinstance(node, FeedForward) else None


Node = Attention | FeedForward | Norm | Dense | Function | Mean | Positions


@dataclass(frozen=True)
class Shapes:
    """The blocks (see `base.Blocks`) on shapes (rows, features).

    nodes: in the order of the walk. rows: of what each node gives. tensors: name of a weight -> its shape.
    Raises ShapeError where a tensor does not fit a node, PlanError for a name that comes twice.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def take(self, x: Shape, rows: int | None) -> Shape:
        return x if rows is None else (min(abs(rows), x[0]), x[1])

    def attention(self, x: Shape, a: Attention, name: str, rows: int | None = None) -> Shape:
        _require_heads(a, name)
        if rows is not None and rows < 0 and a.reach[1] != 0:
            raise PlanError(f"{name}: asked by the last tokens", hint="only a causal attention can be")
        for dense in (a.query, a.key, a.value):
            self._dense(x, dense, name)
        for part, norm in zip(("queries", "keys"), a.normed or (), strict=False):
            self.norm((x[0], a.head_size), norm, f"{name}.{part}")
        if a.relative:
            self.tensors[a.relative.table] = (a.relative.buckets, a.heads)
        context = self.take((x[0], a.value.outputs * a.shared), rows)
        return self._node(name, a, self._dense(context, a.output, name))

    def feed_forward(self, x: Shape, f: FeedForward, name: str) -> Shape:
        if f.gate:
            self._require(self._dense(x, f.gate, name)[1], f.wide.outputs, name)
        return self._node(name, f, self._dense(self._dense(x, f.wide, name), f.narrow, name))

    def norm(self, x: Shape, n: Norm, name: str) -> Shape:
        self._require(x[1], n.size, name)
        for part, there in (("weight", n.gamma), ("bias", n.beta)):
            self.tensors.update({f"{n.name}.{part}": (n.size,)} if there else {})
        return self._node(name, n, x)

    def add(self, x: Shape, y: Shape, factor: float = 1.0) -> Shape:
        if x != y:
            raise ShapeError(f"a sum of tensors of shapes {x} and {y}", hint="take the same rows of both")
        return x

    def linear(self, x: Shape, d: Dense, name: str) -> Shape:
        return self._node(name, d, self._dense(x, d, name))

    def function(self, x: Shape, kind: str, name: str) -> Shape:
        return self._node(name, Function(kind), x)

    def mean(self, x: Shape, name: str) -> Shape:
        return self._node(name, Mean(), (1, x[1]))

    def positions(self, x: Shape, p: Positions, name: str) -> Shape:
        """The tables belong to the embedding, which lists them."""
        self._require(x[1], p.size, name)
        return self._node(name, p, x)

    def answer(self, x: Shape) -> Shape:
        return x

    def _node(self, name: str, node: Node, shape: Shape) -> Shape:
        if name in self.nodes:
            raise PlanError(f"two nodes called {name!r}", hint="names of nodes are unique in a model")
        self.nodes[name], self.rows[name] = node, shape[0]
        return shape

    def _dense(self, x: Shape, d: Dense, name: str) -> Shape:
        self._require(x[1], d.inputs, name)
        rows = d.outputs * d.part[1]
        self.tensors[f"{d.name}.weight"] = (rows, d.inputs)
        self.tensors.update({f"{d.name}.bias": (rows,)} if d.bias else {})
        self.tensors.update({d.gain: (d.outputs,)} if d.gain else {})
        return x[0], d.outputs

    def _require(self, features: int, wanted: int, name: str) -> None:
        if features != wanted:
            raise ShapeError(f"{name}: {features} features, the node takes {wanted}", hint="check the sizes")


def _require_heads(a: Attention, name: str) -> None:
    """Raises ShapeError for features that do not divide into the heads, of queries or of keys."""
    if a.query.outputs % a.heads or a.shared < 1 or a.heads % a.shared:
        raise ShapeError(
            f"{name}: {a.query.outputs} features in {a.heads} heads, {a.shared} of which share keys",
            hint="they must divide",
        )
    if a.key.outputs != a.key_heads * a.head_size or a.value.outputs % a.key_heads:
        raise ShapeError(
            f"{name}: {a.key_heads} heads of keys ({a.key.outputs} features), values ({a.value.outputs})",
            hint=f"a head of queries has {a.head_size}",
        )


GATE = "a gate"
UNCENTRED = "no mean"  # RMSNorm
NORMED = "normalised queries and keys"
ROTARY = "rotary positions"
RELATIVE = "relative positions"
REACH = "a limited reach"
CAUSAL = "a causal reach"  # tokens ahead are not seen; asked by the last tokens, and with a past
GROUPED = "grouped heads"


def options(node: Node | None) -> frozenset[str]:
    """Names the options that a node has."""
    match node:
        case Norm():
            return _names_of({UNCENTRED: not node.centred})
        case FeedForward():
            return _names_of({GATE: node.gate is not None})
        case Attention():
            parts = {NORMED: node.normed, ROTARY: node.rotary, RELATIVE: node.relative}
            causal = node.reach[1] == 0
            heads = {CAUSAL: causal, REACH: node.reach != EVERYWHERE and not causal, GROUPED: node.shared > 1}
            return _names_of({name: value is not None for name, value in parts.items()}) | _names_of(heads)
        case _:
            return frozenset()


def _names_of(present: dict[str, bool]) -> frozenset[str]:
    return frozenset(name for name, there in present.items() if there)
