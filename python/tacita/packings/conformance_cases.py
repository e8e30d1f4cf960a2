"""The little models of the packings' suite (`conformance`): one layer in every place that a packing must
know, with every option of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tacita.blocks.base import Attention, Blocks, Dense, FeedForward, Norm, Powers, Relative, Rotary, Softmax

Forward = Callable[[Blocks[Any, Any], Any], Any]


@dataclass(frozen=True)
class Case:
    """One little model of the suite. forward: of a model on hidden states. features, heads: its sizes; every
    head has features / heads.

    unchecked: whether its answer has no norm check.
    """

    name: str
    forward: Forward
    features: int = 16
    heads: int = 2
    unchecked: bool = False


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
        query, key, value, output = (Dense(name, self.features, self.features) for name in "qkvo")
        return Attention(self.heads, query, key, value, output, self.weights, **self.placed)

    @property
    def feed_forward(self) -> FeedForward:
        wide = 2 * self.features
        up, down = Dense("up", self.features, wide), Dense("down", wide, self.features)
        gate = Dense("gate", self.features, wide, bias=False) if self.gated else None
        return FeedForward(up, self.function, down, gate)

    def norm(self, name: str) -> Norm:
        return Norm(name, self.features, 1e-5, self.deviation, **self.normal)

    def classifier(self, outputs: int = 3) -> Dense:
        return Dense("classifier", self.features, outputs)


def _after(b: Blocks[Any, Any], x: Any, *, m: Little, rows: int | None, head: str) -> Any:
    """Norms after the blocks."""
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
        dense = Dense("pooler", m.features, m.features)
        x = b.function(b.linear(b.take(x, 1), dense, "pooler"), m.pooling, "pooler.tanh")
    elif "mean" in head:
        x = b.mean(x, "mean")
    elif "mask" in head:
        dense = Dense("transform", m.features, m.features)
        x = b.norm(b.function(b.linear(x, dense, "transform"), m.function, "active"), m.norm("ln4"), "norm4")
    return b.answer(b.linear(x, m.classifier(), "classifier") if "classify" in head else x)


def _case(name: str, forward: Callable[..., Any], m: Little, **how: Any) -> Case:
    return Case(name, partial(forward, m=m, **how), m.features, m.heads, unchecked=m.deviation is not None)


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
        for kind in ("gelu_tanh", "silu", "relu2")
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
