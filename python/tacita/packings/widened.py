"""A function of fewer features than a model's width, as one of copies of them that fill the width.

Packings have room for `hidden` features and their loops, masks and sums run over all of them. The head of
ALBERT's masked words maps 256 features to 128, takes a GELU and a norm, and maps to the vocabulary. Two
copies of the 128 are 256 features, of which the mean and the variance are the same:

    [y, y] = [W; W] x,  [g, g] = gelu([y, y]),  norm([g, g]) = [norm(g), norm(g)],  V n = [V/2, V/2] [n, n]

No polynomial and no interval changes. The last map takes half of each copy, so that their noise is averaged.
Both maps have the cost of maps of the whole width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tacita.blocks.base import Dense, Norm
from tacita.blocks.graph import Graph, Step, Value

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
    found, now = [first], _only_reader(graph, first)
    while now is not None and now.op in COPIED:
        found.append(now)
        now = _only_reader(graph, now)
    if now is not None and now.op == "linear" and len(found) > 1:
        yield from (step.name for step in found)


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
