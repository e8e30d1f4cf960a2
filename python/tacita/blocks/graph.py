"""A model as a graph: what a packing reads before it lays a single number into a slot.

Interpreters on tensors compute as they walk. A packing must look ahead: what a LayerNorm leaves out of the
linear map before it, and whether a sum is read once or twice, decides how the sum is stored. So it records
the walk first:

    graph = record(config, tokens)
    [step.op for step in graph.steps]    # "attention", "add", "norm", "feed_forward", "add", "norm", ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm, Positions
from tacita.blocks.shapes import Function, Mean, Node, Shape, Shapes

INPUT = "input"
TAKES = ("take", "take_last")  # of the first rows, and of the last ones


@dataclass(frozen=True)
class Value:
    """A tensor of the walk: the result of the step with this name, or the model's input. shape: (rows,
    features)."""

    step: str
    shape: Shape


@dataclass(frozen=True)
class Step:
    """A step of the walk. op: the method of `Blocks`. inputs: of tensors. node: its declaration, None for
    take, add and answer. factor: of a sum, by which its second term is multiplied."""

    name: str
    op: str
    inputs: tuple[Value, ...]
    output: Value
    node: Node | None = None
    factor: float = 1.0


@dataclass
class Graph:
    """A model's walk: steps in the order of the walk; the last one is the answer."""

    steps: list[Step] = field(default_factory=list)

    def uses(self) -> Counter[str]:
        """How many steps read the result of each."""
        return Counter(value.step for step in self.steps for value in step.inputs)

    def readers(self, step: Step) -> list[Step]:
        """The steps that read its result."""
        return [other for other in self.steps if step.output in other.inputs]

    def takers(self, step: Step) -> list[Step]:
        """The steps that read its result or some of its rows."""
        readers = self.readers(step)
        return [r for r in readers if r.op not in TAKES] + [
            t for r in readers if r.op in TAKES for t in self.takers(r)
        ]

    def fused(self, step: Step) -> bool:
        """Whether a sum is read by a norm and nobody else: it need not be stored as it is."""
        return [reader.op for reader in self.readers(step)] == ["norm"]

    def readers_of_sums(self) -> list[Step]:
        """The nodes that read a sum which is stored: what they take bounds it."""
        sums = [step for step in self.steps if step.op == "add" and not self.fused(step)]
        return [reader for step in sums for reader in self.takers(step) if reader.node is not None]


class Recorder:
    """The blocks (see `base.Blocks`) on values of a graph. Raises what `Shapes` does."""

    def __init__(self, rows: int, features: int) -> None:
        self.graph, self._shapes = Graph(), Shapes()
        self.input = Value(INPUT, (rows, features))

    def take(self, x: Value, rows: int | None) -> Value:
        """Records a step, unless all rows are taken."""
        shape = self._shapes.take(x.shape, rows)
        op = "take" if rows is None or rows > 0 else "take_last"
        return x if shape == x.shape else self._step(op, (x,), shape)

    def attention(self, x: Value, a: Attention, name: str, rows: int | None = None) -> Value:
        """Records a step. The result's shape holds the number of rows that ask."""
        return self._step("attention", (x,), self._shapes.attention(x.shape, a, name, rows), name, a)

    def feed_forward(self, x: Value, f: FeedForward, name: str) -> Value:
        return self._step("feed_forward", (x,), self._shapes.feed_forward(x.shape, f, name), name, f)

    def norm(self, x: Value, n: Norm, name: str) -> Value:
        return self._step("norm", (x,), self._shapes.norm(x.shape, n, name), name, n)

    def add(self, x: Value, y: Value, factor: float = 1.0) -> Value:
        return self._step("add", (x, y), self._shapes.add(x.shape, y.shape), factor=factor)

    def linear(self, x: Value, d: Dense, name: str) -> Value:
        return self._step("linear", (x,), self._shapes.linear(x.shape, d, name), name, d)

    def function(self, x: Value, kind: str, name: str) -> Value:
        return self._step("function", (x,), self._shapes.function(x.shape, kind, name), name, Function(kind))

    def mean(self, x: Value, name: str) -> Value:
        return self._step("mean", (x,), self._shapes.mean(x.shape, name), name, Mean())

    def positions(self, x: Value, p: Positions, name: str) -> Value:
        return self._step("positions", (x,), self._shapes.positions(x.shape, p, name), name, p)

    def answer(self, x: Value) -> Graph:
        """Completes the graph and returns it."""
        self._step("answer", (x,), x.shape, "answer")
        return self.graph

    def _step(
        self,
        op: str,
        inputs: tuple[Value, ...],
        shape: Shape,
        name: str = "",
        node: Node | None = None,
        factor: float = 1.0,
    ) -> Value:
        name = name or f"{op}{len(self.graph.steps)}"
        output = Value(name, shape)
        self.graph.steps.append(Step(name, op, inputs, output, node, factor))
        return output


def record(forward: Callable[[Blocks[Any, Any], Any], Graph], rows: int, features: int) -> Graph:
    """The graph of a model that starts from hidden states (rows, features)."""
    recorder = Recorder(rows, features)
    return forward(recorder, recorder.input)


# A function of fewer features than a model's width, as one of copies of them that fill the width.
#
# Packings have room for `hidden` features and their loops, masks and sums run over all of them. The head of
# ALBERT's masked words maps 256 features to 128, takes a GELU and a norm, and maps to the vocabulary. Two
# copies of the 128 are 256 features, of which the mean and the variance are the same:
#
#     [y, y] = [W; W] x,  [g, g] = gelu([y, y]),  norm([g, g]) = [norm(g), norm(g)],  V n = [V/2, V/2] [n, n]
#
# No polynomial and no interval changes. The last map takes half of each copy, so that their noise is
# averaged. Both maps have the cost of maps of the whole width.

COPIED = ("function", "norm")  # between the two maps


def widened(graph: Graph, size: int) -> Graph:
    """The graph with copies wherever features are fewer than `size` and divide it. A chain that ends in
    another step than a map stays as it is."""
    copies: dict[str, int] = {}
    for step in graph.steps:
        for name in _chain(graph, step, size):
            copies[name] = size // step.output.shape[1]
    return Graph([_copied(step, copies) for step in graph.steps])


def _chain(graph: Graph, first: Step, size: int) -> Iterator[str]:
    """The steps whose results are copied: a map, a function and what follows it up to the next map."""
    features = first.output.shape[1]
    if first.op != "linear" or features >= size or size % features:
        return
    chain, now = [first], _only_reader(graph, first)
    while now is not None and now.op in COPIED:
        chain.append(now)
        now = _only_reader(graph, now)
    if now is not None and now.op == "linear" and len(chain) > 1:
        yield from (step.name for step in chain)


def _only_reader(graph: Graph, step: Step) -> Step | None:
    readers = graph.readers(step)
    return readers[0] if len(readers) == 1 else None


def _copied(step: Step, copies: dict[str, int]) -> Step:
    """The step with its node's and its tensors' features counted with their copies."""
    ins, outs = (copies.get(name, 1) for name in (step.inputs[0].step, step.name))
    if ins == outs == 1:
        return step
    node = step.node
    if isinstance(node, Dense):
        sizes = node.inputs * ins, node.outputs * outs
        node = replace(node, inputs=sizes[0], outputs=sizes[1], copies=(ins, outs))
    elif isinstance(node, Norm):
        node = replace(node, size=node.size * outs, copies=outs)
    inputs = tuple(_wide(value, copies) for value in step.inputs)
    return replace(step, node=node, inputs=inputs, output=_wide(step.output, copies))


def _wide(value: Value, copies: dict[str, int]) -> Value:
    rows, features = value.shape
    return Value(value.step, (rows, features * copies.get(value.step, 1)))
