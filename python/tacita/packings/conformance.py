"""The conformance suite of packings, exported: little models in every place that a packing must know.

    for case in CASES:
        check(case, lambda *made: MyLowering(*made, my_shape), be, tokens=16, tolerance=0.01)

Each case is a model of one layer, written in blocks. Its intervals are those of its own inputs, its
approximations are fitted to them, the packing lowers it, and a backend runs it; the answers must be those of
floats, with sound integrity figures. Padding, several texts and odd sizes are part of it. What a case takes
is counted by `counts`, for snapshots beside the papers' formulas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tacita.approx import exp, inverse, poly, rsqrt, softmax
from tacita.approx.activations import elu, gelu, gelu_tanh, relu, relu_squared, silu, tanh
from tacita.approx.spec import Spec
from tacita.blocks import sequence
from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm, Powers, Relative, Rotary, Softmax
from tacita.blocks.floats import FloatTensors
from tacita.blocks.graph import Graph, record
from tacita.blocks.shapes import Function, Shapes
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.layouts.runs import Sample
from tacita.packings.base import Array, Circuit
from tacita.packings.lowering import lower
from tacita.packings.shared.lowering import Lowering
from tacita.packings.specs import AttentionSpecs, CircuitSpecs, FunctionSpecs, NodeSpecs, NormSpecs

Build = Callable[[Graph, Weights, CircuitSpecs], Lowering]
FITS: dict[str, Any] = {f.name: f for f in (elu, gelu, gelu_tanh, relu, relu_squared, silu, tanh)}
ERROR = 1e-4  # of the fitted approximations
GATE = ("factor", "product")  # what is recorded of a gated feed-forward
WORLDS = 512  # of all cases in a few sizes, each a hundred kilobytes
COARSE = {"relu": 0.02, "relu2": 1e-3, "elu": 2e-3}  # of those whose kinks cost levels


@dataclass(frozen=True, eq=False)
class World:
    """A case with weights and inputs. samples: (hidden (tokens, features), mask), one full, the others
    padded. Equal only to itself, so that packings and slots share what is fitted to it."""

    case: Case
    tokens: int
    weights: Weights
    samples: tuple[Sample, ...]

    @property
    def graph(self) -> Graph:
        """The graph of the case's model."""
        return record(self.case.forward, self.tokens, self.case.features)

    def floats(self, sample: Sample, see: Callable[[str, Array], None]) -> Array:
        """The answer (outputs,), of every token (tokens, outputs), and what is on the way to it."""
        rows = self.case.forward(TensorBlocks(FloatTensors(self.weights, sample[1], see)), sample[0])
        return np.asarray(rows[0] if len(rows) == 1 else rows, np.float64)


@lru_cache(maxsize=WORLDS)
def world_of(case: Case, tokens: int, texts: int = 1, seed: int = 0) -> World:
    """Deterministic: matrices of size 1/sqrt(inputs), gammas about one, lengths from half the tokens up."""
    walk, rng = Shapes(), np.random.default_rng(seed)
    case.forward(walk, (tokens, case.features))
    tensors = {name: rng.normal(0.0, 1.0 / np.sqrt(shape[-1]), shape) for name, shape in walk.tensors.items()}
    for norm in (node for node in walk.nodes.values() if isinstance(node, Norm) and node.gamma):
        tensors[f"{norm.name}.weight"] = rng.normal(1.0, 0.1, norm.size)
    samples = []
    for text in range(texts):
        real = tokens - (text * tokens) // (2 * texts) - (1 if texts == 1 else 0)
        samples.append(
            (rng.normal(size=(tokens, case.features)), (np.arange(tokens) < real).astype(np.float64))
        )
    return World(case, tokens, Weights(tensors), tuple(samples))


@lru_cache(maxsize=WORLDS)
def specs_of(world: World, *, rounds: int = 0) -> CircuitSpecs:
    """Approximations fitted to what floats see on all samples, with room. rounds: of every softmax."""
    walk, traces = Shapes(), [dict[str, Array]() for _ in world.samples]
    world.case.forward(walk, (world.tokens, world.case.features))
    answers = [
        world.floats(sample, trace.__setitem__) for sample, trace in zip(world.samples, traces, strict=True)
    ]
    masks = [mask for _, mask in world.samples]
    nodes: dict[str, NodeSpecs] = {}
    for name, node in walk.nodes.items():
        if isinstance(node, Attention):
            nodes[name] = _attention(name, node, traces, masks, rounds)
        elif isinstance(node, Norm):
            nodes[name] = _norm(name, node, traces)
        elif isinstance(node, FeedForward | Function):
            kind = node.function if isinstance(node, FeedForward) else node.kind
            interval = _signed(_of(traces, name, "argument"))
            gate = [_bound(_of(traces, name, key)) for key in GATE if f"{name}.{key}" in traces[0]]
            nodes[name] = FunctionSpecs(FITS[kind].fit(interval, COARSE.get(kind, ERROR)), None, *gate)
    readers = world.graph.readers_of_sums()
    inputs = {step.name: _bound(_of(traces, step.name, "sum", "input")) for step in readers}
    entry = _bound([hidden for hidden, _ in world.samples])
    return CircuitSpecs(nodes, entry, 2.0 * _bound(answers), inputs)


def circuit_of(world: World, build: Build, *, rounds: int = 0) -> Circuit:
    """The case in a packing."""
    graph, specs = world.graph, specs_of(world, rounds=rounds)
    return lower(graph, build(graph, world.weights, specs), specs)


def check(
    case: Case, build: Build, be: Any, tokens: int, tolerance: float, texts: int = 1, *, rounds: int = 0
) -> None:
    """Raises AssertionError where the answers are not those of floats. be: a backend with values and levels
    enough.

    texts: as many as the packing holds or fewer. rounds: of every softmax, for packings that find it so.
    """
    world = world_of(case, tokens, texts)
    circuit = circuit_of(world, build, rounds=rounds)
    packed = circuit.request.pack(world.samples)
    assert {name: len(vectors) for name, vectors in packed.items()} == dict(circuit.request.counts)
    live = {name: tuple(be.encrypt(v) for v in vectors) for name, vectors in packed.items()}
    for stage in circuit.stages:
        with be.stage(stage.name):
            live = stage.run(be, dict(live))
    answers = circuit.response.read([be.decrypt(ct) for ct in live["answer"]])
    for sample, answer in zip(world.samples, answers, strict=False):
        wanted = world.floats(sample, lambda name, value: None)
        assert answer.values.shape == wanted.shape, f"{case.name}: {answer.values.shape}"
        rows = sample[1] > 0.0 if wanted.ndim == 2 else ...
        worst = float(np.abs(answer.values - wanted)[rows].max())
        assert worst <= tolerance, f"{case.name}: off by {worst:.3g}, tolerance {tolerance:.3g}"
        assert answer.sound(), f"{case.name}: the answer's integrity figures are {answer}"


def counts(case: Case, build: Build, be: Any, tokens: int, *, rounds: int = 0) -> Counter[str]:
    """Operations of a case on a counting backend."""
    circuit = circuit_of(world_of(case, tokens), build, rounds=rounds)
    live = {name: tuple(be.input() for _ in range(n)) for name, n in circuit.request.counts.items()}
    for stage in circuit.stages:
        live = stage.run(be, dict(live))
    totals: Counter[str] = Counter()
    for (operation, *_), count in be.counts.items():
        totals[operation] += count
    return totals


def _of(traces: Sequence[dict[str, Array]], name: str, *keys: str) -> list[Array]:
    """What was recorded of a node, of the keys that it has."""
    return [trace[f"{name}.{key}"] for trace in traces for key in keys if f"{name}.{key}" in trace]


def _attention(
    name: str, node: Attention, traces: Sequence[dict[str, Array]], masks: Sequence[Array], rounds: int
) -> AttentionSpecs:
    scores, contexts = _of(traces, name, "scores"), _of(traces, name, "context")
    (low, high), attended = _signed(scores), _bound(contexts)
    if isinstance(node.weights, Powers):
        p = node.weights
        powers, even = poly.power_weights((low, high), p.offset, p.power, p.denominator)
        return AttentionSpecs(powers, even, attended / even.value, attended)
    if rounds:
        reach = sequence.reach_mask(scores[0].shape[1:], node.reach)
        return _in_rounds((low, high), scores, [reach * (m / m.sum()) for m in masks], attended, rounds)
    logs = _of(traces, name, "log_sum_exp")
    means = [np.exp(log - high) / mask.sum() for log, mask in zip(logs, masks, strict=True)]
    mixed = [_unnormalised(context, mean) for context, mean in zip(contexts, means, strict=True)]
    span = min(float(m[m > 1e-300].min()) for m in means) / 1.5, max(float(m.max()) for m in means) * 1.5
    return AttentionSpecs(
        exp=exp.fit((low, high), ERROR * span[0], shift=high),
        inverse=inverse.fit(span, ERROR),
        context=_bound(mixed),
        attended=attended,
    )


def _in_rounds(
    interval: tuple[float, float],
    scores: Sequence[Array],
    weights: Sequence[Array],
    attended: float,
    rounds: int,
) -> AttentionSpecs:
    pairs = zip(scores, weights, strict=True)
    parts = [(np.exp((s - interval[1]) / 2**rounds) * w).sum(axis=-1) for s, w in pairs]
    means = min(float(m[m > 0.0].min()) for m in parts) / 1.5, max(float(m.max()) for m in parts) * 1.5
    keys, shift = len(weights[0][0]), interval[1]
    phases = softmax.fit(interval, means, (ERROR, ERROR), keys=keys, shift=shift, rounds=rounds)
    return AttentionSpecs.of_phases(phases, attended)


def _unnormalised(context: Array, means: Array) -> Array:
    """(rows, features) times the row means (heads, rows) of its heads."""
    heads, rows = means.shape
    return np.asarray(context.reshape(rows, heads, -1) * means.T[:, :, None])


def _norm(name: str, node: Norm, traces: Sequence[dict[str, Array]]) -> NormSpecs:
    variance = np.concatenate([values.ravel() for values in _of(traces, name, "variance")])
    span = float(variance.min()) / 1.5, float(variance.max()) * 1.5
    spec: Spec = rsqrt.fit(span, ERROR)
    if node.deviation is not None:
        spec = poly.constant_spec("rsqrt", span, 1.0 / node.deviation)
    centred, result = (_bound(_of(traces, name, key)) for key in ("centred", "result"))
    return NormSpecs(spec, centred, result)


def _signed(values: Sequence[Array]) -> tuple[float, float]:
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    return low - 0.1 * (high - low), high + 0.1 * (high - low)


def _bound(values: Sequence[Array]) -> float:
    return 1.25 * max(float(np.abs(v).max()) for v in values)


# The little models: one layer in every place that a packing must know, with every option of its blocks.

Forward = Callable[[Blocks[Any, Any], Any], Any]


@dataclass(frozen=True)
class Case:
    """One little model of the suite. forward: of a model on hidden states. features, heads: its sizes; every
    head has features / heads."""

    name: str
    forward: Forward
    features: int = 16
    heads: int = 2


@dataclass(frozen=True)
class Little:
    """The declarations of a model of one layer."""

    features: int
    heads: int
    function: str = "gelu"
    weights: Softmax | Powers = field(default_factory=Softmax)
    deviation: float | None = None
    pooling: str = "tanh"
    normal: Mapping[str, Any] = field(default_factory=dict)
    gated: bool = False
    placed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def attention(self) -> Attention:
        query, key, value, output = (self.dense(name) for name in "qkvo")
        return Attention(self.heads, query, key, value, output, self.weights, **self.placed)

    @property
    def feed_forward(self) -> FeedForward:
        wide = 2 * self.features
        up, down = self.dense("up", wide), Dense("down", wide, self.features)
        gate = Dense("gate", self.features, wide, bias=False) if self.gated else None
        return FeedForward(up, self.function, down, gate)

    def norm(self, name: str) -> Norm:
        return Norm(name, self.features, 1e-5, self.deviation, **self.normal)

    def dense(self, name: str, outputs: int = 0) -> Dense:
        return Dense(name, self.features, outputs or self.features)


def _after(b: Blocks[Any, Any], x: Any, *, m: Little, rows: int | None, head: str) -> Any:
    y = b.norm(b.add(b.take(x, rows), b.attention(x, m.attention, "attention", rows)), m.norm("ln1"), "norm1")
    x = b.norm(b.add(y, b.feed_forward(y, m.feed_forward, "feed_forward")), m.norm("ln2"), "norm2")
    return _headed(b, x, m, head)


def norms_before(
    b: Blocks[Any, Any], x: Any, *, m: Little, rows: int | None, head: str, final: bool = False
) -> Any:
    """Norms before the blocks; final: and one at the end."""
    mixed = b.attention(b.norm(x, m.norm("ln1"), "norm1"), m.attention, "attention", rows)
    y = b.add(b.take(x, rows), mixed)
    x = b.add(y, b.feed_forward(b.norm(y, m.norm("ln2"), "norm2"), m.feed_forward, "feed_forward"))
    return _headed(b, b.norm(x, m.norm("ln3"), "norm3") if final else x, m, head)


def _input_again(b: Blocks[Any, Any], x: Any, *, m: Little, rows: int | None, head: str) -> Any:
    """Norms before the blocks, and the input added to what the last block adds to; then the mean's norm."""
    y = b.add(x, b.attention(b.norm(x, m.norm("ln1"), "norm1"), m.attention, "attention", rows))
    total = b.add(y, x, -1.7)
    x = b.add(total, b.feed_forward(b.norm(y, m.norm("ln2"), "norm2"), m.feed_forward, "feed_forward"))
    pooled = b.mean(b.norm(x, m.norm("ln3"), "norm3"), "mean")
    return _headed(b, b.norm(pooled, Norm("ln5", m.features, 1e-5), "norm5"), m, head)


def _headed(b: Blocks[Any, Any], x: Any, m: Little, head: str) -> Any:
    """Adds the model's head. head: words that name what follows: pool or mean, mask (as language models have
    it), classify."""
    if "pool" in head:
        x = b.function(b.linear(b.take(x, 1), m.dense("pooler"), "pooler"), m.pooling, "pooler.tanh")
    elif "mean" in head:
        x = b.mean(x, "mean")
    elif "mask" in head:
        mapped = b.linear(x, m.dense("transform"), "transform")
        x = b.norm(b.function(mapped, m.function, "active"), m.norm("ln4"), "norm4")
    return b.answer(b.linear(x, m.dense("classifier", 3), "classifier") if "classify" in head else x)


def _case(name: str, forward: Callable[..., Any], m: Little, **how: Any) -> Case:
    return Case(name, partial(forward, m=m, **how), m.features, m.heads)


RMS: dict[str, Any] = {"centred": False, "beta": False}
BARE: dict[str, Any] = {"gamma": False, "beta": False, "scale": 0.5}
NORMS = tuple(Norm(name, 8, 1e-5, centred=False, beta=False) for name in ("qn", "kn"))
LAYERNORMS = tuple(replace(norm, centred=True, beta=True) for norm in NORMS)
PLACED: dict[str, dict[str, Any]] = {
    "rotary": {"rotary": Rotary(100.0)},
    "rotary, odd": {"rotary": Rotary(100.0)},
    "relative": {"relative": Relative("table", 8, 4)},
    "reach": {"reach": (3, 2)},
    "normed": {"normed": NORMS},
    "normed, rotary": {"normed": NORMS, "rotary": Rotary(50.0)},
    "layer norms, rotary": {"normed": LAYERNORMS, "rotary": Rotary(50.0)},
    "positions": {"rotary": Rotary(50.0), "relative": Relative("table", 8, 6), "reach": (9, None)},
}
NEW_POSITIONS: dict[str, Any] = {"rotary": Rotary(100.0), "reach": (3, 2), "normed": NORMS}
NEWER = Little(16, 2, "silu", normal=RMS, gated=True, placed=NEW_POSITIONS)
EVEN, ODD, POOLED = Little(16, 2), Little(24, 3), "pool classify"
CASES: tuple[Case, ...] = (
    _case("norms after, first row, pooled, classified", _after, EVEN, rows=1, head="pool classify"),
    _case("norms after, first row", _after, EVEN, rows=1, head=""),
    _case("norms after, first row, classified", _after, ODD, rows=1, head="classify"),
    _case("norms after, averaged", _after, EVEN, rows=None, head="mean"),
    _case("norms after, averaged, classified", _after, ODD, rows=None, head="mean classify"),
    _case("relu", _after, replace(EVEN, function="relu"), rows=1, head="classify"),
    *(
        _case(f"root mean squares, {name}", forward, replace(EVEN, normal=RMS), rows=rows, head=head)
        for name, forward, rows, head in (
            ("after, first row", _after, 1, "classify"),
            ("after, averaged", _after, None, "mean classify"),
            ("before, first row", norms_before, 1, "classify"),
            ("before, averaged", norms_before, None, "mean classify"),
        )
    ),
    _case("no weights", norms_before, replace(ODD, normal=BARE), rows=1, head="classify", final=True),
    *(
        _case(f"every token, {name}", forward, m, rows=None, head=head, **how)
        for name, forward, m, head, how in (
            ("norms after, classified", _after, EVEN, "classify", {}),
            ("norms before, as it is", norms_before, EVEN, "", {"final": True}),
            ("norms before, words", norms_before, ODD, "mask classify", {"final": True}),
        )
    ),
    _case("norms before, first row, masked", norms_before, ODD, rows=1, head="mask classify", final=True),
    *(
        _case(f"{name}, {rows or 'all'}", norms_before, replace(m, placed=placed), rows=rows, head=head)
        for m, (name, placed) in zip((EVEN, ODD, EVEN, ODD, EVEN, ODD, ODD, ODD), PLACED.items(), strict=True)
        for rows, head in ((1, "classify"), (None, "mean classify"))
    ),
    *(
        _case(f"newer, {rows or 'every token'}", norms_before, NEWER, rows=rows, head="classify", final=True)
        for rows in (1, None)
    ),
    *(
        _case(f"gate, {m.function}, {head}", norms_before, replace(m, gated=True), rows=rows, head=head)
        for m, rows, head in (
            (replace(EVEN, function="silu"), 1, "classify"),
            (replace(ODD, function="silu"), None, "mean classify"),
            (EVEN, None, "mean"),
        )
    ),
    *(
        _case(f"functions, {kind}", _after, replace(EVEN, function=kind, pooling=kind), rows=1, head=POOLED)
        for kind in ("gelu_tanh", "silu", "relu2", "elu")
    ),
    *(
        _case(f"input added again, mean normalised, {head}", _input_again, m, rows=None, head=head)
        for m, head in ((replace(EVEN, normal=RMS), "classify"), (ODD, "classify"), (EVEN, ""))
    ),
    _case("powers", _after, replace(EVEN, weights=Powers(3, 4.0, 150.0)), rows=None, head="mean classify"),
    _case("stored deviations", _after, replace(EVEN, deviation=1.7), rows=1, head="classify"),
    _case("norms before, averaged, classified", norms_before, EVEN, rows=None, head="mean classify"),
    _case("norms before, averaged", norms_before, ODD, rows=None, head="mean"),
    _case("norms before, first row, classified", norms_before, EVEN, rows=1, head="classify"),
    _case("norms before and at the end, averaged", norms_before, EVEN, rows=None, head="mean", final=True),
    _case("norms before and at the end, first row", norms_before, ODD, rows=1, head="classify", final=True),
)
