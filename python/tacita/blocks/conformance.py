"""The conformance suite of the blocks, exported: every block with every option, at odd shapes, against
floats.

    for case in CASES:
        check(case, run, tolerance=0.01)

`run` interprets a `Task`: it takes the little model `task.forward`, its weights and one input, and returns
the answer (1, outputs). An interpreter that lacks an option must refuse it with a PlanError before anything
runs: `check(..., refused=True)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import (
    CAUSAL,
    Attention,
    Blocks,
    Dense,
    FeedForward,
    Norm,
    Powers,
    Relative,
    Rotary,
    Softmax,
)
from tacita.blocks.floats import FloatTensors, See, record_nothing
from tacita.blocks.shapes import CAUSAL as AHEAD
from tacita.blocks.shapes import GATE, GROUPED, NORMED, REACH, RELATIVE, ROTARY, UNCENTRED, Shapes
from tacita.blocks.tensors import TensorBlocks
from tacita.blocks.weights import Weights
from tacita.errors import PlanError

Array = NDArray[np.float64]
Forward = Callable[[Blocks[Any, Any], Any], Any]
FEATURES, HEADS, WIDE, TOKENS, REAL = 15, 3, 22, 7, 5  # no power of two, and no multiple of another


@dataclass(frozen=True)
class Case:
    """A case of the suite. name: says block and option. forward: a little model of one row. option: what it
    needs beyond the plain blocks."""

    name: str
    forward: Forward
    option: str = ""


@dataclass(frozen=True)
class Task:
    """A case with its weights and one input: hidden (tokens, features), mask (tokens,)."""

    forward: Forward
    tensors: Mapping[str, Array]
    hidden: Array
    mask: Array

    def floats(self, see: See = record_nothing) -> Array:
        """Returns the answer that floats compute."""
        result: Array = self.forward(
            TensorBlocks(FloatTensors(Weights(self.tensors), self.mask, see)), self.hidden
        )
        return result


Run = Callable[[Task], Array]


def task_of(case: Case, seed: int = 0) -> Task:
    """Draws weights of size 1/sqrt(inputs) and gammas about one, the same for the same seed."""
    walk, rng = Shapes(), np.random.default_rng(seed)
    case.forward(walk, (TOKENS, FEATURES))
    tensors = {name: rng.normal(0.0, 1.0 / np.sqrt(shape[-1]), shape) for name, shape in walk.tensors.items()}
    for node in walk.nodes.values():
        if isinstance(node, Norm) and node.gamma:
            tensors[f"{node.name}.weight"] = rng.normal(1.0, 0.1, node.size)
    mask = (np.arange(TOKENS) < REAL).astype(np.float64)
    return Task(case.forward, tensors, rng.normal(size=(TOKENS, FEATURES)), mask)


def check(case: Case, run: Run, tolerance: float, *, refused: bool = False) -> None:
    """Raises AssertionError where the interpreter's answer is not that of floats, or its refusal is
    missing."""
    task = task_of(case)
    try:
        result = run(task)
    except PlanError:
        assert refused, f"{case.name}: refused"
        return
    assert not refused, f"{case.name}: an option that it lacks was not refused"
    wanted = task.floats()
    assert result.shape == wanted.shape, f"{case.name}: {result.shape}, expected {wanted.shape}"
    worst = float(np.abs(result - wanted).max())
    assert worst <= tolerance, f"{case.name}: off by {worst:.3g}, tolerance {tolerance:.3g}"


def _dense(name: str, inputs: int = FEATURES, outputs: int = FEATURES) -> Dense:
    return Dense(name, inputs, outputs)


def _attention(weights: Softmax | Powers) -> Attention:
    query, key, value, output = (_dense(name) for name in ("q", "k", "v", "o"))
    return Attention(HEADS, query, key, value, output, weights)


SOFTMAX = Softmax()
NORM = Norm("ln", FEATURES, 1e-5)
NEWER = ("gelu_tanh", "silu", "relu2", "elu")
NORMS = tuple(Norm(name, FEATURES // HEADS, 1e-5, centred=False, beta=False) for name in ("qn", "kn"))
EVEN: dict[str, Any] = {
    name: Dense(name, FEATURES, 12) for name in ("query", "key", "value")
}  # heads of four features turn
EVEN["output"] = Dense("o", 12, FEATURES)
ROTATES: dict[str, Any] = {"rotary": Rotary(100.0)}
SHARING = EVEN | {name: Dense(name, FEATURES, 4) for name in ("key", "value")} | {"shared": HEADS}
POWERS = Powers(power=3, offset=4.0, denominator=150.0)


def _attends(
    b: Blocks[Any, Any], x: Any, *, rows: int | None, weights: Softmax | Powers = SOFTMAX, **options: Any
) -> Any:
    attention = replace(_attention(weights), **options)
    return b.answer(b.take(b.attention(x, attention, "attention", rows), 1))


def _attends_behind(b: Blocks[Any, Any], x: Any, *, rows: int | None, **options: Any) -> Any:
    """Attends as decoders do: every token that asks gets an answer, and sees the tokens before it."""
    attention = replace(_attention(SOFTMAX), reach=CAUSAL, **options)
    return b.answer(b.attention(x, attention, "attention", rows))


def _feeds(b: Blocks[Any, Any], x: Any, *, function: str, gated: bool = False) -> Any:
    gate = Dense("both", FEATURES, WIDE, part=(0, 2), bias=False) if gated else None
    wide = Dense("both", FEATURES, WIDE, part=(1, 2), bias=False) if gated else _dense("up", outputs=WIDE)
    block = FeedForward(wide, function, _dense("down", WIDE), gate)
    return b.answer(b.take(b.feed_forward(x, block, "feed_forward"), 1))


def _normalises(b: Blocks[Any, Any], x: Any, *, norm: Norm) -> Any:
    return b.answer(b.take(b.norm(x, norm, "norm"), 1))


def _maps(b: Blocks[Any, Any], x: Any, **options: Any) -> Any:
    return b.answer(b.linear(b.take(x, 1), replace(_dense("map", outputs=4), **options), "map"))


def _computes(b: Blocks[Any, Any], x: Any, *, kind: str) -> Any:
    return b.answer(b.function(b.linear(b.take(x, 1), _dense("map"), "map"), kind, "function"))


def _adds_products(b: Blocks[Any, Any], x: Any) -> Any:
    """Adds two products, neither of which is there yet."""
    x = b.take(x, 1)
    return b.answer(b.add(b.linear(x, _dense("left"), "left"), b.linear(x, _dense("right"), "right")))


def _adds_scaled(b: Blocks[Any, Any], x: Any, *, maps: bool) -> Any:
    """Adds a tensor times numbers to one that is there and to a product that is not there yet."""
    y = b.add(b.norm(x, NORM, "norm"), x, -1.75)
    return b.answer(b.take(b.add(b.linear(y, _dense("map"), "map"), x, 0.375) if maps else y, 1))


def _norm_after(b: Blocks[Any, Any], x: Any, *, rows: int | None) -> Any:
    """Computes a layer as BERT has it, then a dense answer."""
    y = b.add(b.take(x, rows), b.attention(x, _attention(SOFTMAX), "attention", rows))
    y = b.norm(y, NORM, "norm1")
    block = FeedForward(_dense("up", outputs=WIDE), "gelu", _dense("down", WIDE))
    x = b.norm(b.add(y, b.feed_forward(y, block, "feed_forward")), replace(NORM, name="ln2"), "norm2")
    return b.answer(b.linear(b.take(x, 1), _dense("classifier", outputs=2), "classifier"))


def _norm_before(b: Blocks[Any, Any], x: Any) -> Any:
    """Computes a layer with its norms before the blocks, averaged."""
    x = b.add(x, b.attention(b.norm(x, NORM, "norm1"), _attention(SOFTMAX), "attention"))
    block = FeedForward(_dense("up", outputs=WIDE), "relu", _dense("down", WIDE))
    y = b.norm(x, replace(NORM, name="ln2"), "norm2")
    x = b.add(x, b.feed_forward(y, block, "feed_forward"))
    return b.answer(b.mean(x, "mean"))


CASES: tuple[Case, ...] = (
    Case("attention", partial(_attends, rows=None)),
    Case("attention, one row", partial(_attends, rows=1)),
    Case("attention, three rows", partial(_attends, rows=3)),
    Case("attention, powers", partial(_attends, rows=None, weights=POWERS), "powers"),
    Case("attention, rotary", partial(_attends, rows=None, **EVEN, **ROTATES), ROTARY),
    Case("attention, relative", partial(_attends, rows=None, relative=Relative("t", 8, 4)), RELATIVE),
    Case("attention, a window", partial(_attends, rows=None, reach=(2, 1)), REACH),
    Case("attention, grouped heads", partial(_attends, rows=None, **SHARING), GROUPED),
    Case("attention, causal", partial(_attends_behind, rows=None), AHEAD),
    *(Case(f"attention, causal, {-n} last", partial(_attends_behind, rows=n), AHEAD) for n in (-1, -3)),
    Case("attention, causal, grouped, rotary", partial(_attends_behind, rows=-2, **SHARING | ROTATES), AHEAD),
    Case("attention, normed", partial(_attends, rows=None, normed=NORMS), NORMED),
    *(Case(f"feed-forward, {f}", partial(_feeds, function=f)) for f in ("gelu", "relu")),
    *(Case(f"feed-forward, {f}", partial(_feeds, function=f), f) for f in NEWER),
    Case("feed-forward, gated", partial(_feeds, function="silu", gated=True), GATE),
    Case("norm", partial(_normalises, norm=NORM)),
    Case("norm, stored deviation", partial(_normalises, norm=replace(NORM, deviation=1.7)), "deviation"),
    Case("norm, no mean", partial(_normalises, norm=replace(NORM, centred=False, beta=False)), UNCENTRED),
    Case("norm, no weights", partial(_normalises, norm=replace(NORM, gamma=False, beta=False))),
    Case("linear", _maps),
    Case("linear, no bias, layer scale", partial(_maps, bias=False, gain="gain")),
    Case("linear, all tokens", lambda b, x: b.answer(b.linear(x, _dense("map", outputs=4), "map"))),
    *(Case(f"function, {kind}", partial(_computes, kind=kind)) for kind in ("gelu", "relu", "tanh")),
    Case("mean", lambda b, x: b.answer(b.mean(x, "mean"))),
    Case("mean, linear", lambda b, x: b.answer(b.linear(b.mean(x, "mean"), _dense("map", outputs=3), "map"))),
    Case("sum of products", _adds_products),
    Case("sum of tensors", lambda b, x: b.answer(b.take(b.add(x, b.norm(x, NORM, "norm")), 1))),
    *(Case(f"sum with a factor, {n}", partial(_adds_scaled, maps=bool(n))) for n in range(2)),
    Case("a layer with norms after", partial(_norm_after, rows=None)),
    Case("a layer with norms after, one row", partial(_norm_after, rows=1)),
    Case("a layer with norms before", _norm_before),
)
