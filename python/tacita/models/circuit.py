"""A checkpoint as a circuit: the list of stages that a scheme runs, with the request and response layouts.

Live tensors between stages: x (hidden states / bound, with copies), s (scores), e (exponentials), c and r (context
and, where they need ciphertexts of their own, row sums), inv, a (centred sum before a LayerNorm), v (its variance),
y (after the first LayerNorm), h and g (before and after the activation), and in the head p, t, check, answer. The
request is x, mask and, for mean pooling, mean; masks stay live and are never lowered or bootstrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from tacita.approx.spec import Spec, from_dict
from tacita.backends.base import Backend
from tacita.blocks.attention import Attention, AttentionSpecs, AttentionWeights, mask_numbers, pack_masks
from tacita.blocks.feed_forward import FeedForward
from tacita.blocks.norm import Norm
from tacita.blocks.pooler import Pooler, mean
from tacita.blocks.response import Answering, ResponseLayout, norm_check
from tacita.checkpoint.load import Checkpoint
from tacita.errors import PlanError
from tacita.models.bert import layer_prefix
from tacita.packing.heads import HeadWindow, head_windows
from tacita.packing.rows import Array, FeatureLayout, RowsShape
from tacita.schemes.base import Live, Stage

Run: TypeAlias = Callable[[Backend, Live], Live]
FIXED = frozenset({"mask", "mean"})  # request tensors that pass through every stage as they came


@dataclass(frozen=True)
class LayerSpecs:
    """Approximations and bounds of one layer, all calibrated.

    exp: of scaled scores minus a shift, values in (0, 1]. inverse: of the row sums of those over real keys.
    rsqrt1, rsqrt2: of variance + epsilon. activation: of the inner features. Bounds of absolute values: context
    (unnormalised, sum_j exp_ij V_j), sum1, sum2 (inputs of the LayerNorms minus their means), norm1, output.
    """

    exp: Spec
    inverse: Spec
    rsqrt1: Spec
    rsqrt2: Spec
    activation: Spec
    context: float
    sum1: float
    norm1: float
    sum2: float
    output: float


@dataclass(frozen=True)
class CircuitSpecs:
    """All layers; entry: bound of |hidden states| sent by the client; tanh: for the pooler; answer: bound of logits."""

    layers: tuple[LayerSpecs, ...]
    entry: float
    tanh: Spec | None
    answer: float

    def to_dict(self) -> dict[str, Any]:
        """JSON data; `from_json` gives back an equal object."""
        layers = [{f.name: _plain(getattr(layer, f.name)) for f in fields(layer)} for layer in self.layers]
        return {"layers": layers, "entry": self.entry, "tanh": _plain(self.tanh), "answer": self.answer}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CircuitSpecs:
        """Inverse of to_dict. Errors: PlanError naming a missing or unknown field."""
        try:
            layers = tuple(LayerSpecs(**{k: _thaw(v) for k, v in layer.items()}) for layer in data["layers"])
            return CircuitSpecs(layers, float(data["entry"]), _thaw(data["tanh"]), float(data["answer"]))
        except (KeyError, TypeError) as error:
            raise PlanError(f"circuit specs: {error}", hint="the plan was made by another version") from error


@dataclass(frozen=True, eq=False)
class RequestLayout:
    """What the client encrypts: tensor name -> slot vectors. bound: of the hidden states."""

    layout: FeatureLayout
    windows: tuple[HeadWindow, ...]
    bound: float
    mean: bool

    @property
    def counts(self) -> dict[str, int]:
        """Ciphertexts per tensor."""
        sizes = {"x": self.layout.count, "mask": max(mask_numbers(self.windows)) + 1}
        return sizes | ({"mean": 1} if self.mean else {})

    def pack(self, hidden: Array, mask: Array) -> dict[str, list[Array]]:
        """hidden (tokens, size), mask (tokens,) of 0/1 -> slot vectors, all in [-1, 1] for calibrated inputs."""
        out = {"x": self.layout.pack(hidden / self.bound), "mask": pack_masks(self.windows, mask)}
        if self.mean:
            out["mean"] = [np.repeat(mask / mask.sum(), self.layout.shape.window)]
        return out


@dataclass(frozen=True, eq=False)
class Circuit:
    """stages in order; request and response: where the client's and the server's numbers go. layouts, bounds: of the
    tensors x and y by stage name, for comparison with the reference."""

    stages: tuple[Stage, ...]
    request: RequestLayout
    response: ResponseLayout
    layout: FeatureLayout
    bounds: Mapping[str, float]


def build_circuit(checkpoint: Checkpoint, specs: CircuitSpecs, slots: int, tokens: int) -> Circuit:
    """The circuit of a BERT checkpoint in rows packing. Errors: ShapeError for a shape that rows do not admit,
    PlanError when specs and checkpoint differ in layers or pooling."""
    config = checkpoint.config
    _check(checkpoint, specs)
    shape = RowsShape(slots, tokens)
    layout = FeatureLayout.dense(shape, config.hidden, copied=True)
    windows = head_windows(shape, config.heads, config.head_size)
    stages: list[Stage] = []
    bounds: dict[str, float] = {}
    entry = specs.entry
    for i, layer in enumerate(specs.layers):
        last = i + 1 == len(specs.layers)
        stages += _layer(checkpoint, i, layer, layout, windows, entry, last)
        bounds |= {f"layer{i}.norm1": layer.norm1, f"layer{i}.norm2": layer.output}
        entry = layer.output
    head, response = _head(checkpoint, specs, layout, entry)
    request = RequestLayout(layout, windows, specs.entry, config.pooling == "mean")
    return Circuit((*stages, *head), request, response, layout, bounds)


def build_stages(checkpoint: Checkpoint, specs: CircuitSpecs, slots: int, tokens: int) -> list[Stage]:
    """Only the stages of `build_circuit`."""
    return list(build_circuit(checkpoint, specs, slots, tokens).stages)


def _check(checkpoint: Checkpoint, specs: CircuitSpecs) -> None:
    config = checkpoint.config
    if len(specs.layers) != config.layers:
        raise PlanError(f"specs of {len(specs.layers)} layers, model of {config.layers}", hint="calibrate this model")
    if config.pooling == "cls" and specs.tanh is None:
        raise PlanError("the pooler has no tanh approximation", hint="calibrate this model")


def _layer(
    checkpoint: Checkpoint,
    index: int,
    specs: LayerSpecs,
    layout: FeatureLayout,
    windows: tuple[HeadWindow, ...],
    entry: float,
    last: bool,
) -> list[Stage]:
    t, name = checkpoint.tensors, layer_prefix(index)
    bounds = AttentionSpecs(specs.exp, specs.inverse, specs.context, entry, specs.sum1)
    attention = Attention.build(_attention_weights(t, name), layout, windows, bounds)
    norms = [
        Norm(layout, rsqrt, checkpoint.config.norm_eps, t[f"{key}.weight"], t[f"{key}.bias"], before, after)
        for key, rsqrt, before, after in (
            (f"{name}attention.output.LayerNorm", specs.rsqrt1, specs.sum1, specs.norm1),
            (f"{name}output.LayerNorm", specs.rsqrt2, specs.sum2, specs.output),
        )
    ]
    if last and checkpoint.config.pooling == "cls":
        norms[1] = norms[1].at_token(0)
    wide = (f"{name}intermediate.dense", f"{name}output.dense")
    weights = (t[f"{wide[0]}.weight"], t[f"{wide[0]}.bias"], t[f"{wide[1]}.weight"], t[f"{wide[1]}.bias"])
    forward = FeedForward.build(weights, layout, specs.activation, specs.norm1, specs.sum2)
    stages = [*_attention_stages(attention), *_norm_stages(norms[0], "y", 1, check=False)]
    stages += [*_forward_stages(forward), *_norm_stages(norms[1], "x", 2, check=last)]
    return [Stage(f"layer{index}.{s.name}", _keeping(s.run), s.complex_outputs) for s in stages]


def _attention_weights(t: Mapping[str, Array], name: str) -> AttentionWeights:
    parts = [f"{name}attention.self.{part}" for part in ("query", "key", "value")] + [f"{name}attention.output.dense"]
    return AttentionWeights(*(t[f"{part}.{kind}"] for part in parts for kind in ("weight", "bias")))


def _attention_stages(attention: Attention) -> list[Stage]:
    def scores(be: Backend, live: Live) -> Live:
        return {"x": live["x"], "s": attention.scores(be, live["x"])}

    def exponentials(be: Backend, live: Live) -> Live:
        return {"x": live["x"], "e": attention.exponentials(be, live["s"])}

    def mix(be: Backend, live: Live) -> Live:
        context, sums = attention.mix(be, live["x"], live["e"], live["mask"])
        return {"x": live["x"], "c": context} | ({"r": sums} if sums else {})

    def inverses(be: Backend, live: Live) -> Live:
        found = attention.inverses(be, live["c"], live.get("r", ()))
        return {"x": live["x"], "c": live["c"], "inv": found}

    def project(be: Backend, live: Live) -> Live:
        return {"a": attention.project(be, live["x"], live["c"], live["inv"])}

    runs = {"scores": scores, "exp": exponentials, "mix": mix, "inverse": inverses, "project": project}
    return [Stage(name, run) for name, run in runs.items()]


def _forward_stages(forward: FeedForward) -> list[Stage]:
    def expand(be: Backend, live: Live) -> Live:
        return {"y": live["y"], "h": forward.expand(be, live["y"])}

    def activate(be: Backend, live: Live) -> Live:
        return {"y": live["y"], "g": forward.activate(be, live["h"])}

    def contract(be: Backend, live: Live) -> Live:
        return {"a": forward.contract(be, live["y"], live["g"])}

    return [Stage("expand", expand), Stage("activate", activate), Stage("contract", contract)]


def _norm_stages(norm: Norm, out: str, number: int, *, check: bool) -> list[Stage]:
    """check: also return the norm check of the response."""

    def variance(be: Backend, live: Live) -> Live:
        return {"a": live["a"], "v": (norm.variance(be, live["a"]),)}

    def normalise(be: Backend, live: Live) -> Live:
        root = norm.root(be, live["v"][0])
        result: Live = {out: norm.normalise(be, live["a"], root)}
        if check:
            result["check"] = (norm_check(be, live["v"][0], root, norm.rsqrt, norm.layout.shape),)
        return result

    return [Stage(f"variance{number}", variance), Stage(f"norm{number}", normalise)]


def _head(
    checkpoint: Checkpoint, specs: CircuitSpecs, layout: FeatureLayout, entry: float
) -> tuple[list[Stage], ResponseLayout]:
    t, stages, bound = checkpoint.tensors, [], entry
    if checkpoint.config.pooling == "cls" and specs.tanh is not None:
        pooler = Pooler.build(t["pooler.dense.weight"], t["pooler.dense.bias"], layout, entry, specs.tanh)
        stages, bound = _pooler_stages(pooler), pooler.exit
    else:
        stages = [Stage("mean", partial(_mean, layout))]
    if checkpoint.config.classes:
        answering = Answering.logits(t["classifier.weight"], t["classifier.bias"], layout, bound, specs.answer)
    else:
        answering = Answering.features(layout, bound)

    def answer(be: Backend, live: Live) -> Live:
        return {"answer": answering.apply(be, live["t"], live["check"][0])}

    stages = [Stage(s.name, _keeping(s.run)) for s in stages]
    return [*stages, Stage("answer", answer)], answering.response


def _pooler_stages(pooler: Pooler) -> list[Stage]:
    def dense(be: Backend, live: Live) -> Live:
        return {"check": live["check"], "p": pooler.pre_activation(be, live["x"])}

    def tanh(be: Backend, live: Live) -> Live:
        return {"check": live["check"], "t": pooler.activate(be, live["p"])}

    return [Stage("pooler", dense), Stage("tanh", tanh)]


def _mean(layout: FeatureLayout, be: Backend, live: Live) -> Live:
    return {"check": live["check"], "t": mean(be, live["x"], live["mean"][0], layout)}


def _keeping(run: Run) -> Run:
    """The stage with the request's masks handed on."""

    def kept(be: Backend, live: Live) -> Live:
        return run(be, live) | {name: live[name] for name in FIXED if name in live}

    return kept


def _plain(value: Spec | float | None) -> Any:
    return value.to_dict() if isinstance(value, Spec) else value


def _thaw(value: Any) -> Any:
    return from_dict(value) if isinstance(value, Mapping) else value
