"""A checkpoint as a circuit: its weights in blocks, the blocks as the stages of a scheme, request and response.

The request is x (hidden states), mask and, for mean pooling, mean. With the tanh pooler or the raw [CLS] vector only the
first token of the last layer is read, so that layer runs on one query and one vector (`blocks.first_token`); the layers
before it, and all layers with mean pooling, run on all tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tacita.approx.spec import Spec, from_dict
from tacita.checkpoint.load import Checkpoint
from tacita.errors import PlanError
from tacita.models.bert import POOLINGS, layer_prefix
from tacita.packings.columns.row_estimate import RowEstimate
from tacita.packings.forward import forward_stages
from tacita.packings.rows import stages as thor
from tacita.packings.rows.attention import Attention, AttentionSpecs, mask_numbers, pack_masks
from tacita.packings.rows.feed_forward import FeedForward
from tacita.packings.rows.first_token import (
    FirstTokenAttention,
    VectorForward,
    VectorNorm,
    can_carry,
    carry,
    exact_bound,
)
from tacita.packings.rows.heads import HeadWindow, head_windows
from tacita.packings.rows.layout import Array, FeatureLayout, RowsShape
from tacita.packings.rows.norm import Norm
from tacita.packings.rows.pooler import Pooler
from tacita.packings.rows.response import Answering, ResponseLayout
from tacita.packings.rows.vector import VectorLayout
from tacita.packings.weights import AttentionWeights
from tacita.slots.stage import Stage

FIXED = thor.FIXED


@dataclass(frozen=True)
class LayerSpecs:
    """Approximations and bounds of one layer, all calibrated.

    exp: of scaled scores minus a shift, values in (0, 1]. inverse: of the row means of those over real keys.
    rsqrt1, rsqrt2: of variance + epsilon. activation: of the inner features. Bounds of absolute values: context
    (unnormalised, mean_j exp_ij V_j), attended (normalised), sum1, sum2 (inputs of the LayerNorms minus their means), norm1, output.
    rows: taken from the scores before exp, whose interval is after it; only batch circuits can.
    """

    exp: Spec
    inverse: Spec
    rsqrt1: Spec
    rsqrt2: Spec
    activation: Spec
    context: float
    attended: float
    sum1: float
    norm1: float
    sum2: float
    output: float
    rows: RowEstimate | None = None


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
            layers = tuple(_layer_of(layer) for layer in data["layers"])
            return CircuitSpecs(layers, float(data["entry"]), _thaw(data["tanh"]), float(data["answer"]))
        except (KeyError, TypeError) as error:
            raise PlanError(f"circuit specs: {error}", hint="the plan was made by another version") from error


@dataclass(frozen=True, eq=False)
class RequestLayout:
    """What the client encrypts: tensor name -> slot vectors. bound: of the hidden states.

    first_token: whether the last mask ciphertext is the plain mask (the last layer has one query). all_tokens: whether
    there are layers before it. mean: whether the mean over tokens is asked for.
    """

    layout: FeatureLayout
    windows: tuple[HeadWindow, ...]
    bound: float
    all_tokens: bool
    first_token: bool
    mean: bool

    @property
    def counts(self) -> dict[str, int]:
        """Ciphertexts per tensor."""
        masks = (max(mask_numbers(self.windows)) + 1 if self.all_tokens else 0) + self.first_token
        return {"x": self.layout.count, "mask": masks} | ({"mean": 1} if self.mean else {})

    def pack(self, hidden: Array, mask: Array) -> dict[str, list[Array]]:
        """hidden (tokens, size), mask (tokens,) of 0/1 -> slot vectors, all in [-1, 1] for calibrated inputs.

        Masks hold 1/n for n real tokens: softmax is the same, and the interval of the sums does not grow with n.
        """
        window, keep = self.layout.shape.window, mask / mask.sum()
        masks = pack_masks(self.windows, keep) if self.all_tokens else []
        masks += [np.repeat(keep, window)] if self.first_token else []
        x = hidden / self.bound
        carried = not self.all_tokens and can_carry(self.layout)
        out = {"x": [carry(self.layout, x)] if carried else self.layout.pack(x), "mask": masks}
        return out | ({"mean": [np.repeat(keep, window)]} if self.mean else {})


@dataclass(frozen=True, eq=False)
class Probe:
    """How to read a tensor for comparison with the float reference: `tensor` after the stage named by the probe's
    key; read(slot vectors) gives (tokens or 1, hidden); reference: the name in the trace."""

    tensor: str
    bound: float
    unpack: Callable[[Sequence[Array]], Array]
    reference: str

    def read(self, slots: Sequence[Array]) -> Array:
        """Decoded ciphertexts -> values."""
        return np.atleast_2d(np.real(self.unpack(slots))) * self.bound


@dataclass(frozen=True, eq=False)
class Circuit:
    """stages in order; request and response: where the client's and the server's numbers go; probes by stage."""

    stages: tuple[Stage, ...]
    request: RequestLayout
    response: ResponseLayout
    layout: FeatureLayout
    probes: Mapping[str, Probe]


def build_circuit(checkpoint: Checkpoint, specs: CircuitSpecs, slots: int, tokens: int) -> Circuit:
    """The circuit of a BERT checkpoint in rows packing. Errors: ShapeError for a shape that rows do not admit,
    PlanError when specs and checkpoint differ in layers or pooling."""
    check_specs(checkpoint, specs)
    if any(layer.rows for layer in specs.layers):
        raise PlanError("rows packing takes no row estimates", hint="calibrate without them")
    return _Builder(checkpoint, specs, RowsShape(slots, tokens)).circuit()


def build_stages(checkpoint: Checkpoint, specs: CircuitSpecs, slots: int, tokens: int) -> list[Stage]:
    """Only the stages of `build_circuit`."""
    return list(build_circuit(checkpoint, specs, slots, tokens).stages)


def check_specs(checkpoint: Checkpoint, specs: CircuitSpecs) -> None:
    """Raises PlanError unless the specs have the checkpoint's layers and what its pooling needs."""
    config = checkpoint.config
    if len(specs.layers) != config.layers:
        raise PlanError(f"specs of {len(specs.layers)} layers, model of {config.layers}", hint="calibrate this model")
    if config.pooling == "pooler" and specs.tanh is None:
        raise PlanError("the pooler has no tanh approximation", hint="calibrate this model")


def unknown_pooling(name: str) -> PlanError:
    """What is raised for a pooling that a circuit does not have."""
    return PlanError(f"circuit: pooling {name!r}", hint=f"supported: {', '.join(POOLINGS)}")


class _Builder:
    """Walks over the layers; holds what they share."""

    def __init__(self, checkpoint: Checkpoint, specs: CircuitSpecs, shape: RowsShape) -> None:
        self.config, self.tensors, self.specs = checkpoint.config, checkpoint.tensors, specs
        self.layout = FeatureLayout.dense(shape, self.config.hidden, copied=True)
        self.vector = VectorLayout(shape.slots, self.config.hidden)
        self.windows = head_windows(shape, self.config.heads, self.config.head_size)
        self.first = self.config.first_token
        self.probes: dict[str, Probe] = {}

    def circuit(self) -> Circuit:
        stages: list[Stage] = []
        count = self.config.layers
        for i in range(count):
            layer = self._last_layer(i) if self.first and i + 1 == count else self._layer(i)
            stages += thor.keeping_masks(layer, f"layer{i}.")
        head, response = self._head()
        request = RequestLayout(
            self.layout, self.windows, self.specs.entry, not self.first or count > 1, self.first, not self.first
        )
        return Circuit((*stages, *head), request, response, self.layout, self.probes)

    def _layer(self, i: int) -> list[Stage]:
        """All tokens."""
        s, entry, last = self.specs.layers[i], self._entry(i), i + 1 == self.config.layers
        bounds = AttentionSpecs(s.exp, s.inverse, s.context, s.attended, entry, s.sum1)
        attention = Attention.build(self._attention(i), self.layout, self.windows, bounds)
        forward = FeedForward.build(self._forward(i), self.layout, s.activation, s.norm1, s.sum2)
        eps = self.config.norm_eps
        norm1 = Norm(self.layout, s.rsqrt1, eps, *self._norm(i, "attention.output"), s.sum1, s.norm1)
        before_last = self.first and i + 2 == self.config.layers and can_carry(self.layout)
        norm2 = Norm(self.layout, s.rsqrt2, eps, *self._norm(i, "output"), s.sum2, s.output, before_last)
        self._probe(i, self.layout.unpack)
        return [
            *thor.attention_stages(attention),
            *thor.norm_stages(norm1, "y", 1),
            *forward_stages(forward),
            *thor.norm_stages(norm2, "x", 2, check=last),
        ]

    def _last_layer(self, i: int) -> list[Stage]:
        """The first token only."""
        s, entry, layout = self.specs.layers[i], self._entry(i), self.vector
        sum1, sum2 = (exact_bound(b, r, layout.size) for b, r in ((s.sum1, s.rsqrt1), (s.sum2, s.rsqrt2)))
        bounds = AttentionSpecs(s.exp, s.inverse, s.context, s.attended, entry, sum1)
        carried = can_carry(self.layout)
        attention = FirstTokenAttention.build(self._attention(i), self.layout, self.windows, bounds, carried=carried)
        forward = VectorForward.build(self._forward(i), layout, s.activation, s.norm1, sum2)
        eps = self.config.norm_eps
        norm1 = VectorNorm(layout, s.rsqrt1, eps, *self._norm(i, "attention.output"), sum1, s.norm1)
        norm2 = VectorNorm(layout, s.rsqrt2, eps, *self._norm(i, "output"), sum2, s.output)
        self._probe(i, lambda slots: layout.unpack(slots[0]))
        return [
            *thor.first_token_stages(attention),
            *thor.vector_norm_stages(norm1, "y", 1),
            *thor.vector_forward_stages(forward),
            *thor.vector_norm_stages(norm2, "x", 2, check=True),
        ]

    def _head(self) -> tuple[list[Stage], ResponseLayout]:
        entry = self.specs.layers[-1].output
        match self.config.pooling:
            case "pooler":
                assert self.specs.tanh is not None  # check_specs
                pooler = Pooler.build(*self._dense("pooler.dense"), self.vector, entry, self.specs.tanh)
                stages, answering, pooled = thor.pooler_stages(pooler), self._vector_answer(pooler.exit), "t"
            case "cls":
                stages, answering, pooled = [], self._vector_answer(entry), "x"
            case "mean":
                stages, answering, pooled = [thor.mean_stage(self.layout)], self._mean_answer(entry), "t"
            case unknown:
                raise unknown_pooling(unknown)
        return [*thor.keeping_masks(stages), thor.answer_stage(answering, pooled)], answering.response

    def _vector_answer(self, bound: float) -> Answering:
        if not self.config.classes:
            return Answering.vector_features(self.vector, bound)
        return Answering.vector_logits(*self._dense("classifier"), self.vector, bound, self.specs.answer)

    def _mean_answer(self, bound: float) -> Answering:
        if not self.config.classes:
            return Answering.features(self.layout, bound)
        return Answering.logits(*self._dense("classifier"), self.layout, bound, self.specs.answer)

    def _entry(self, i: int) -> float:
        return self.specs.layers[i - 1].output if i else self.specs.entry

    def _dense(self, name: str) -> tuple[Array, Array]:
        return self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]

    def _norm(self, i: int, name: str) -> tuple[Array, Array]:
        return self._dense(f"{layer_prefix(i)}{name}.LayerNorm")

    def _attention(self, i: int) -> AttentionWeights:
        names = ("self.query", "self.key", "self.value", "output.dense")
        return AttentionWeights(*(a for n in names for a in self._dense(f"{layer_prefix(i)}attention.{n}")))

    def _forward(self, i: int) -> tuple[Array, Array, Array, Array]:
        up, down = (self._dense(f"{layer_prefix(i)}{name}.dense") for name in ("intermediate", "output"))
        return *up, *down

    def _probe(self, i: int, unpack: Callable[[Sequence[Array]], Array]) -> None:
        s = self.specs.layers[i]
        self.probes[f"layer{i}.norm1"] = Probe("y", s.norm1, unpack, f"layer{i}.norm1.result")
        self.probes[f"layer{i}.norm2"] = Probe("x", s.output, unpack, f"layer{i}.norm2.result")


def _layer_of(data: Mapping[str, Any]) -> LayerSpecs:
    rows = data.get("rows")
    values = {k: _thaw(v) for k, v in data.items() if k != "rows"}
    return LayerSpecs(**values, rows=RowEstimate.from_json(rows) if rows else None)


def _plain(value: Spec | RowEstimate | float | None) -> Any:
    return value.to_dict() if isinstance(value, Spec | RowEstimate) else value


def _thaw(value: Any) -> Any:
    return from_dict(value) if isinstance(value, Mapping) else value
