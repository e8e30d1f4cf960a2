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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacita.approx import exp, inverse, poly, rsqrt, softmax
from tacita.approx.activations import gelu, gelu_tanh, relu, relu_squared, silu, tanh
from tacita.approx.spec import Spec
from tacita.blocks import sequence
from tacita.blocks.base import Attention, FeedForward, Norm, Powers
from tacita.blocks.floats import FloatTensors
from tacita.blocks.graph import Graph, record
from tacita.blocks.shapes import Function, Shapes
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.layouts.runs import Sample
from tacita.packings.base import Array, Circuit
from tacita.packings.conformance_cases import CASES as CASES
from tacita.packings.conformance_cases import Case as Case
from tacita.packings.lowering import lower
from tacita.packings.shared.lowering import Lowering
from tacita.packings.specs import AttentionSpecs, CircuitSpecs, FunctionSpecs, NodeSpecs, NormSpecs

Build = Callable[[Graph, Weights, CircuitSpecs], Lowering]
FITS: dict[str, Any] = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": relu,
    "relu2": relu_squared,
    "silu": silu,
    "tanh": tanh,
}
ERROR = 1e-4  # of the fitted approximations
COARSE = {"relu": 0.02, "relu2": 1e-3}  # of those whose kinks cost levels


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
        """The graph of the case's model."""
        return record(self.case.forward, self.tokens, self.case.features)

    def floats(self, sample: Sample, see: Callable[[str, Array], None]) -> Array:
        """The answer (outputs,), of every token (tokens, outputs), and what is on the way to it."""
        rows = self.case.forward(TensorBlocks(FloatTensors(self.weights, sample[1], see)), sample[0])
        return np.asarray(rows[0] if len(rows) == 1 else rows, np.float64)


def world_of(case: Case, tokens: int, texts: int = 1, seed: int = 0) -> World:
    """Deterministic: matrices of size 1/sqrt(inputs), gammas about one, lengths from half the tokens up."""
    walk, rng = Shapes(), np.random.default_rng(seed)
    case.forward(walk, (tokens, case.features))
    tensors = {name: rng.normal(0.0, 1.0 / np.sqrt(shape[-1]), shape) for name, shape in walk.tensors.items()}
    for node in walk.nodes.values():
        for norm in (node,) if isinstance(node, Norm) else ():
            if norm.gamma:
                tensors[f"{norm.name}.weight"] = rng.normal(1.0, 0.1, norm.size)
    samples = []
    for text in range(texts):
        real = tokens - (text * tokens) // (2 * texts) - (1 if texts == 1 else 0)
        samples.append(
            (rng.normal(size=(tokens, case.features)), (np.arange(tokens) < real).astype(np.float64))
        )
    return World(case, tokens, Weights(tensors), tuple(samples))


def specs_of(world: World, *, two_phases: bool = False) -> CircuitSpecs:
    """Approximations fitted to what floats see on all samples, with room. two_phases: of every softmax."""
    walk, traces = Shapes(), [dict[str, Array]() for _ in world.samples]
    world.case.forward(walk, (world.tokens, world.case.features))
    answers = [
        world.floats(sample, trace.__setitem__) for sample, trace in zip(world.samples, traces, strict=True)
    ]
    masks = [mask for _, mask in world.samples]
    nodes: dict[str, NodeSpecs] = {}
    for name, node in walk.nodes.items():
        if isinstance(node, Attention):
            nodes[name] = _attention(name, node, traces, masks, two_phases)
        elif isinstance(node, Norm):
            nodes[name] = _norm(name, node, traces)
        elif isinstance(node, FeedForward | Function):
            kind = node.function if isinstance(node, FeedForward) else node.kind
            fitted = _function(kind, _signed([t[f"{name}.argument"] for t in traces]))
            nodes[name] = FunctionSpecs(fitted, None, *_gate(name, traces))
    inputs = {step.name: _bound(_of(traces, step.name)) for step in world.graph.readers_of_sums()}
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
        assert answer.values.shape == wanted.shape, f"{case.name}: {answer.values.shape}"
        rows = sample[1] > 0.0 if wanted.ndim == 2 else ...
        worst = float(np.abs(answer.values - wanted)[rows].max())
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
    totals: Counter[str] = Counter()
    for (operation, *_), count in be.counts.items():
        totals[operation] += count
    return totals


def _of(traces: Sequence[dict[str, Array]], name: str) -> list[Array]:
    """What went into a node, of the nodes that may read a stored sum."""
    keys = [f"{name}.{key}" for key in ("sum", "input")]
    return [trace[key] for trace in traces for key in keys if key in trace]


def _attention(
    name: str, node: Attention, traces: Sequence[dict[str, Array]], masks: Sequence[Array], two_phases: bool
) -> AttentionSpecs:
    scores = [trace[f"{name}.scores"] for trace in traces]
    low, high = _signed(scores)
    attended = _bound([trace[f"{name}.context"] for trace in traces])
    if isinstance(node.weights, Powers):
        p = node.weights
        powers, even = poly.power_weights((low, high), p.offset, p.power, p.denominator)
        return AttentionSpecs(powers, even, attended / even.value, attended)
    if two_phases:
        return _two_phases(
            (low, high),
            scores,
            [sequence.reach_mask(scores[0].shape[1:], node.reach) * m for m in masks],
            attended,
        )
    logs = [trace[f"{name}.log_sum_exp"] for trace in traces]
    means = [np.exp(log - high) / mask.sum() for log, mask in zip(logs, masks, strict=True)]
    mixed = [_unnormalised(trace[f"{name}.context"], mean) for trace, mean in zip(traces, means, strict=True)]
    span = min(float(m[m > 1e-300].min()) for m in means) / 1.5, max(float(m.max()) for m in means) * 1.5
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
        (np.exp((s - interval[1]) / 2) * mask).sum(axis=-1) / mask.max(axis=0).sum()
        for s, mask in zip(scores, masks, strict=True)
    ]
    means = min(float(m[m > 0.0].min()) for m in halves) / 1.5, max(float(m.max()) for m in halves) * 1.5
    phases = softmax.fit(interval, means, (ERROR, ERROR), keys=len(masks[0][0]), shift=interval[1])
    return AttentionSpecs.of_phases(phases, attended)


def _unnormalised(context: Array, means: Array) -> Array:
    """(rows, features) times the row means (heads, rows) of its heads."""
    heads, rows = means.shape
    return np.asarray(context.reshape(rows, heads, -1) * means.T[:, :, None])


def _norm(name: str, node: Norm, traces: Sequence[dict[str, Array]]) -> NormSpecs:
    variance = np.concatenate([trace[f"{name}.variance"].ravel() for trace in traces])
    span = float(variance.min()) / 1.5, float(variance.max()) * 1.5
    spec: Spec = rsqrt.fit(span, ERROR)
    if node.deviation is not None:
        spec = poly.constant_spec("rsqrt", span, 1.0 / node.deviation)
    centred, result = (_bound([trace[f"{name}.{key}"] for trace in traces]) for key in ("centred", "result"))
    return NormSpecs(spec, centred, result)


def _gate(name: str, traces: Sequence[dict[str, Array]]) -> list[float]:
    """Bounds of a gated feed-forward's factor and product; none of another node."""
    keys = [key for key in (f"{name}.factor", f"{name}.product") if key in traces[0]]
    return [_bound([trace[key] for trace in traces]) for key in keys]


def _function(kind: str, interval: tuple[float, float]) -> Spec:
    spec: Spec = FITS[kind].fit(interval, COARSE.get(kind, ERROR))
    return spec


def _signed(values: Sequence[Array]) -> tuple[float, float]:
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    return low - 0.1 * (high - low), high + 0.1 * (high - low)


def _bound(values: Sequence[Array]) -> float:
    return 1.25 * max(float(np.abs(v).max()) for v in values)
