"""The conformance suite of packings, exported: little models in every place that a packing must know.

    for case in CASES:
        check(case, lambda graph, weights, specs: MyParts(graph, weights, specs, my_shape), be,
        tolerance=0.01)

Each case is a model of one layer, written in blocks. Its intervals are those of its own inputs, its
approximations are fitted to them, the packing lowers it, and a backend runs it; the answers must be those of
floats, with sound integrity figures. Padding, several texts and odd sizes are part of it. What a case takes
is counted by `counts`, for snapshots beside the papers' formulas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from tacita.approx import softmax
from tacita.approx.activations import gelu, relu, tanh
from tacita.approx.exponentials import exp, power
from tacita.approx.inverses import constant, inverse, rsqrt
from tacita.approx.spec import Spec
from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm, Powers, Softmax
from tacita.blocks.floats import FloatTensors
from tacita.blocks.graph import Graph, record
from tacita.blocks.meaning import Meaning
from tacita.blocks.shapes import Function, Shapes
from tacita.blocks.weights import Weights
from tacita.packings.base import Array, Circuit, Parts
from tacita.packings.lowering import lower
from tacita.packings.request import Sample
from tacita.packings.specs import AttentionSpecs, CircuitSpecs, FunctionSpecs, NodeSpecs, NormSpecs

Forward = Callable[[Blocks[Any, Any], Any], Any]
Build = Callable[[Graph, Weights, CircuitSpecs], Parts[Any]]
FITS: dict[str, Any] = {"gelu": gelu, "relu": relu, "tanh": tanh}
ERROR = 1e-4  # of the fitted approximations
COARSE = 0.02  # of ReLU's, whose kink costs levels


@dataclass(frozen=True)
class Case:
    """forward: of a model on hidden states. features, heads: its sizes; every head has features / heads.

    unchecked: whether its answer has no norm check.
    """

    name: str
    forward: Forward
    features: int = 16
    heads: int = 2
    unchecked: bool = False


@dataclass(frozen=True)
class World:
    """A case with weights and inputs. samples: (hidden (tokens, features), mask), one full, the others
    padded."""

    case: Case
    tokens: int
    weights: Weights
    samples: tuple[Sample, ...]

    @property
    def graph(self) -> Graph:
        """Of the case's model."""
        return record(self.case.forward, self.tokens, self.case.features)

    def floats(self, sample: Sample, see: Callable[[str, Array], None]) -> Array:
        """The answer (outputs,), and what is on the way to it."""
        found = self.case.forward(Meaning(FloatTensors(self.weights, sample[1], see)), sample[0])
        return np.asarray(found[0], np.float64)


def world_of(case: Case, tokens: int, texts: int = 1, seed: int = 0) -> World:
    """Deterministic: matrices of size 1/sqrt(inputs), gammas about one, lengths from half the tokens up."""
    walk, rng = Shapes(), np.random.default_rng(seed)
    case.forward(walk, (tokens, case.features))
    tensors = {name: rng.normal(0.0, 1.0 / np.sqrt(shape[-1]), shape) for name, shape in walk.tensors.items()}
    for node in walk.nodes.values():
        if isinstance(node, Norm):
            tensors[f"{node.name}.weight"] = rng.normal(1.0, 0.1, node.size)
    samples = []
    for text in range(texts):
        real = tokens - (text * tokens) // (2 * texts) - (1 if texts == 1 else 0)
        samples.append(
            (rng.normal(size=(tokens, case.features)), (np.arange(tokens) < real).astype(np.float64))
        )
    return World(case, tokens, Weights(tensors), tuple(samples))


def specs_of(world: World, *, two_phases: bool = False) -> CircuitSpecs:
    """Approximations fitted to what floats see on all samples, with room. two_phases: of every softmax."""
    walk, seen = Shapes(), [dict[str, Array]() for _ in world.samples]
    world.case.forward(walk, (world.tokens, world.case.features))
    answers = [
        world.floats(sample, trace.__setitem__) for sample, trace in zip(world.samples, seen, strict=True)
    ]
    masks = [mask for _, mask in world.samples]
    nodes: dict[str, NodeSpecs] = {}
    for name, node in walk.nodes.items():
        if isinstance(node, Attention):
            nodes[name] = _attention(name, node, seen, masks, two_phases)
        elif isinstance(node, Norm):
            nodes[name] = _norm(name, node, seen)
        elif isinstance(node, FeedForward | Function):
            kind = node.function if isinstance(node, FeedForward) else node.kind
            nodes[name] = FunctionSpecs(_function(kind, _signed([t[f"{name}.argument"] for t in seen])))
    inputs = {step.name: _bound(_of(seen, step.name)) for step in world.graph.readers_of_sums()}
    entry = _bound([hidden for hidden, _ in world.samples])
    return CircuitSpecs(nodes, entry, 2.0 * _bound(answers), inputs)


def circuit_of(world: World, build: Build, *, two_phases: bool = False) -> Circuit:
    """The case in a packing."""
    graph, specs = world.graph, specs_of(world, two_phases=two_phases)
    return lower(graph, build(graph, world.weights, specs), specs)


def check(
    case: Case,
    build: Build,
    be: Any,
    tokens: int,
    tolerance: float,
    texts: int = 1,
    *,
    two_phases: bool = False,
) -> None:
    """Raises AssertionError where the answers are not those of floats. be: a backend with values and levels
    enough.

    texts: as many as the packing holds or fewer. two_phases: of every softmax, for packings that find it so.
    """
    world = world_of(case, tokens, texts)
    circuit = circuit_of(world, build, two_phases=two_phases)
    packed = circuit.request.pack(world.samples)
    assert {name: len(vectors) for name, vectors in packed.items()} == dict(circuit.request.counts)
    live = {name: tuple(be.encrypt(v) for v in vectors) for name, vectors in packed.items()}
    for stage in circuit.stages:
        with be.stage(stage.name):
            live = stage.run(be, dict(live))
    answers = circuit.response.read([be.decrypt(ct) for ct in live["answer"]])
    for sample, answer in zip(world.samples, answers, strict=False):
        wanted = world.floats(sample, lambda name, value: None)
        worst = float(np.abs(answer.values - wanted).max())
        assert worst <= tolerance, f"{case.name}: off by {worst:.3g}, tolerance {tolerance:.3g}"
        # a stored deviation has nothing that a check of the variance could show
        judged = replace(answer, norm_check=1.0) if case.unchecked else answer
        assert judged.sound(), f"{case.name}: the answer's integrity figures are {answer}"


def counts(case: Case, build: Build, be: Any, tokens: int, *, two_phases: bool = False) -> Counter[str]:
    """Operations of a case on a counting backend."""
    circuit = circuit_of(world_of(case, tokens), build, two_phases=two_phases)
    live = {name: tuple(be.input() for _ in range(n)) for name, n in circuit.request.counts.items()}
    for stage in circuit.stages:
        live = stage.run(be, dict(live))
    found: Counter[str] = Counter()
    for (operation, *_), count in be.counts.items():
        found[operation] += count
    return found


def _of(seen: Sequence[dict[str, Array]], name: str) -> list[Array]:
    """What went into a node, of the nodes that may read a stored sum."""
    keys = [f"{name}.{key}" for key in ("sum", "input")]
    return [trace[key] for trace in seen for key in keys if key in trace]


def _attention(
    name: str, node: Attention, seen: Sequence[dict[str, Array]], masks: Sequence[Array], two_phases: bool
) -> AttentionSpecs:
    scores = [trace[f"{name}.scores"] for trace in seen]
    low, high = _signed(scores)
    attended = _bound([trace[f"{name}.context"] for trace in seen])
    if isinstance(node.weights, Powers):
        p = node.weights
        largest = power.top((low, high), p.offset) ** p.power
        even = constant.fit("inverse", (-1.0, 1.0), largest / p.denominator)
        context = attended * p.denominator / largest
        return AttentionSpecs(power.fit((low, high), p.offset, p.power), even, context, attended)
    if two_phases:
        return _two_phases((low, high), scores, masks, attended)
    logs = [trace[f"{name}.log_sum_exp"] for trace in seen]
    means = [np.exp(log - high) / mask.sum() for log, mask in zip(logs, masks, strict=True)]
    mixed = [_unnormalised(trace[f"{name}.context"], mean) for trace, mean in zip(seen, means, strict=True)]
    span = min(float(m.min()) for m in means) / 1.5, max(float(m.max()) for m in means) * 1.5
    return AttentionSpecs(
        exp=exp.fit((low, high), ERROR * span[0], shift=high),
        inverse=inverse.fit(span, ERROR),
        context=_bound(mixed),
        attended=attended,
    )


def _two_phases(
    interval: tuple[float, float], scores: Sequence[Array], masks: Sequence[Array], attended: float
) -> AttentionSpecs:
    halves = [
        np.exp((s[..., mask > 0.0] - interval[1]) / 2).mean(axis=-1)
        for s, mask in zip(scores, masks, strict=True)
    ]
    means = min(float(m.min()) for m in halves) / 1.5, max(float(m.max()) for m in halves) * 1.5
    found = softmax.fit(interval, means, (ERROR, ERROR), keys=len(masks[0]), shift=interval[1])
    return AttentionSpecs(found.half, found.second, attended, attended, first=found.first)


def _unnormalised(context: Array, means: Array) -> Array:
    """(rows, features) times the row means (heads, rows) of its heads."""
    heads, rows = means.shape
    return np.asarray(context.reshape(rows, heads, -1) * means.T[:, :, None])


def _norm(name: str, node: Norm, seen: Sequence[dict[str, Array]]) -> NormSpecs:
    variance = np.concatenate([trace[f"{name}.variance"].ravel() for trace in seen])
    span = float(variance.min()) / 1.5, float(variance.max()) * 1.5
    found: Spec = rsqrt.fit(span, ERROR)
    if node.deviation is not None:
        found = constant.fit("rsqrt", span, 1.0 / node.deviation)
    centred, result = (_bound([trace[f"{name}.{key}"] for trace in seen]) for key in ("centred", "result"))
    return NormSpecs(found, centred, result)


def _function(kind: str, interval: tuple[float, float]) -> Spec:
    found: Spec = FITS[kind].fit(interval, COARSE if kind == "relu" else ERROR)
    return found


def _signed(values: Sequence[Array]) -> tuple[float, float]:
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    return low - 0.1 * (high - low), high + 0.1 * (high - low)


def _bound(values: Sequence[Array]) -> float:
    return 1.25 * max(float(np.abs(v).max()) for v in values)


@dataclass(frozen=True)
class Little:
    """The declarations of a model of one layer."""

    features: int
    heads: int
    function: str = "gelu"
    weights: Softmax | Powers = field(default_factory=Softmax)
    deviation: float | None = None

    @property
    def attention(self) -> Attention:
        query, key, value, output = (Dense(name, self.features, self.features) for name in "qkvo")
        return Attention(self.heads, query, key, value, output, self.weights)

    @property
    def feed_forward(self) -> FeedForward:
        wide = 2 * self.features
        return FeedForward(
            Dense("up", self.features, wide), self.function, Dense("down", wide, self.features)
        )

    def norm(self, name: str) -> Norm:
        return Norm(name, self.features, 1e-5, self.deviation)

    def classifier(self, outputs: int = 3) -> Dense:
        return Dense("classifier", self.features, outputs)


def _after(b: Blocks[Any, Any], x: Any, *, m: Little, rows: int | None, head: str) -> Any:
    """Norms after the blocks."""
    y = b.norm(b.add(b.take(x, rows), b.attention(x, m.attention, "attention", rows)), m.norm("ln1"), "norm1")
    x = b.norm(b.add(y, b.feed_forward(y, m.feed_forward, "feed_forward")), m.norm("ln2"), "norm2")
    return _headed(b, x, m, head)


def _before(
    b: Blocks[Any, Any], x: Any, *, m: Little, rows: int | None, head: str, final: bool = False
) -> Any:
    """Norms before the blocks; final: and one at the end."""
    mixed = b.attention(b.norm(x, m.norm("ln1"), "norm1"), m.attention, "attention", rows)
    y = b.add(b.take(x, rows), mixed)
    x = b.add(y, b.feed_forward(b.norm(y, m.norm("ln2"), "norm2"), m.feed_forward, "feed_forward"))
    return _headed(b, b.norm(x, m.norm("ln3"), "norm3") if final else x, m, head)


def _headed(b: Blocks[Any, Any], x: Any, m: Little, head: str) -> Any:
    """head: words that name what follows: pool or mean, classify."""
    if "pool" in head:
        dense = Dense("pooler", m.features, m.features)
        x = b.function(b.linear(b.take(x, 1), dense, "pooler"), "tanh", "pooler.tanh")
    elif "mean" in head:
        x = b.mean(x, "mean")
    return b.answer(b.linear(x, m.classifier(), "classifier") if "classify" in head else x)


def _case(name: str, forward: Callable[..., Any], m: Little, **how: Any) -> Case:
    return Case(name, partial(forward, m=m, **how), m.features, m.heads, unchecked=m.deviation is not None)


EVEN, ODD = Little(16, 2), Little(24, 3)
CASES: tuple[Case, ...] = (
    _case("norms after, first row, pooled, classified", _after, EVEN, rows=1, head="pool classify"),
    _case("norms after, first row", _after, EVEN, rows=1, head=""),
    _case("norms after, first row, classified", _after, ODD, rows=1, head="classify"),
    _case("norms after, averaged", _after, EVEN, rows=None, head="mean"),
    _case("norms after, averaged, classified", _after, ODD, rows=None, head="mean classify"),
    _case("relu", _after, replace(EVEN, function="relu"), rows=1, head="classify"),
    _case("powers", _after, replace(EVEN, weights=Powers(3, 4.0, 150.0)), rows=None, head="mean classify"),
    _case("stored deviations", _after, replace(EVEN, deviation=1.7), rows=1, head="classify"),
    _case("norms before, averaged, classified", _before, EVEN, rows=None, head="mean classify"),
    _case("norms before, averaged", _before, ODD, rows=None, head="mean"),
    _case("norms before, first row, classified", _before, EVEN, rows=1, head="classify"),
    _case("norms before and at the end, averaged", _before, EVEN, rows=None, head="mean", final=True),
    _case("norms before and at the end, first row", _before, ODD, rows=1, head="classify", final=True),
)
