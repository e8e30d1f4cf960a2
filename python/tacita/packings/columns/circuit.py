"""A checkpoint as a circuit for many inputs at once: interleaved columns, as the stages of `schemes.batch`.

The request is x (hidden states of all sequences) and mask (1/length at real tokens). With the tanh pooler or the raw [CLS]
vector the last layer runs on the first token only; the layers before it, and all layers with mean pooling, run on all tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tacita.checkpoint.load import Checkpoint
from tacita.errors import InputError, PlanError
from tacita.models.bert import layer_prefix
from tacita.packings.columns import stages as batch
from tacita.packings.columns.attention import BatchAttention, BatchAttentionSpecs, Split
from tacita.packings.columns.cells import Cells
from tacita.packings.columns.feed_forward import BatchForward
from tacita.packings.columns.first_token import BatchFirstToken, CellForward, CellNorm
from tacita.packings.columns.layout import Array, BatchShape, Columns
from tacita.packings.columns.linear import Meaning
from tacita.packings.columns.norm import BatchNorm
from tacita.packings.columns.pooler import CellPooler
from tacita.packings.columns.response import BatchResponse, CellAnswering, MeanAnswering
from tacita.packings.forward import forward_stages
from tacita.packings.rows.circuit import CircuitSpecs, Probe, check_specs, unknown_pooling
from tacita.packings.sizes import refuse
from tacita.packings.weights import AttentionWeights
from tacita.slots.stage import Stage, keeping

FIXED = frozenset({"mask"})  # request tensors that pass through every stage as they came
SCHEMES = ("arion", "moai")
Input = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class BatchRequest:
    """What the client encrypts. columns: of x. bound: of the hidden states."""

    columns: Columns
    bound: float

    @property
    def counts(self) -> dict[str, int]:
        """Ciphertexts per tensor."""
        return {"x": self.columns.count, "mask": 1}

    def pack(self, inputs: Sequence[Input]) -> dict[str, list[Array]]:
        """Up to `sequences` inputs, each (tokens, size) hidden states and (tokens,) mask of 0/1 -> slot vectors.

        Empty places hold copies of the first input: the server cannot see how full the batch is. Errors: InputError for
        none or too many, or an input of another shape.
        """
        shape, size = self.columns.shape, self.columns.size
        if not 1 <= len(inputs) <= shape.sequences:
            raise InputError(f"{len(inputs)} inputs in a batch of {shape.sequences}", hint="split them into batches")
        for hidden, mask in inputs:
            if hidden.shape != (shape.tokens, size) or mask.shape != (shape.tokens,):
                raise InputError(
                    f"an input of shape {hidden.shape} with mask {mask.shape}, expected {(shape.tokens, size)}",
                    hint="pad to the plan's tokens",
                )
        filled = [*inputs, *[inputs[0]] * (shape.sequences - len(inputs))]
        hidden = np.stack([h for h, _ in filled]) / self.bound
        keep = np.stack([m / m.sum() for _, m in filled])
        return {"x": self.columns.pack(hidden), "mask": [np.repeat(keep.T.reshape(-1), shape.lanes)]}


@dataclass(frozen=True, eq=False)
class BatchCircuit:
    """stages in order; request and response: where numbers go; probes by stage, their `read` gives (sequences, ...)."""

    stages: tuple[Stage, ...]
    request: BatchRequest
    response: BatchResponse
    shape: BatchShape
    probes: Mapping[str, Probe] = field(default_factory=dict)


def build_batch_circuit(
    checkpoint: Checkpoint, specs: CircuitSpecs, shape: BatchShape, scheme: str = "arion"
) -> BatchCircuit:
    """The circuit of a BERT checkpoint for `shape.sequences` inputs. scheme: how attention rotates (see `Split`).

    Errors: ShapeError for lanes that the model does not admit, PlanError when specs and checkpoint differ.
    """
    check_specs(checkpoint, specs)
    if scheme not in SCHEMES:
        raise PlanError(f"no batch scheme {scheme!r}", hint=f"one of {', '.join(SCHEMES)}")
    if shape.lanes > 1 and checkpoint.config.first_token:
        raise refuse("interleaved", f"{shape.lanes} lanes with an answer read from [CLS]", "use one lane")
    return _Builder(checkpoint, specs, shape, scheme).circuit()


class _Builder:
    """Walks over the layers; holds what they share."""

    def __init__(self, checkpoint: Checkpoint, specs: CircuitSpecs, shape: BatchShape, scheme: str) -> None:
        self.config, self.tensors, self.specs, self.shape = checkpoint.config, checkpoint.tensors, specs, shape
        self.columns = Columns.by_heads(shape, self.config.heads, self.config.head_size)
        self.cells = Cells(shape, self.config.hidden)
        double = Split.double(shape.tokens)
        self.splits = (Split.single(shape.tokens) if scheme == "moai" else double, double)
        self.first = self.config.first_token
        self.response = BatchResponse.of(self.config.outputs, self.columns, specs.answer)
        self.probes: dict[str, Probe] = {}

    def circuit(self) -> BatchCircuit:
        stages: list[Stage] = []
        meaning = Meaning.bounded(self.specs.entry, self.config.hidden)
        count = self.config.layers
        for i in range(count):
            build = self._last_layer if self.first and i + 1 == count else self._layer
            layer, meaning = build(i, meaning)
            stages += keeping(FIXED, layer, f"layer{i}.")
        request = BatchRequest(self.columns, self.specs.entry)
        return BatchCircuit((*stages, *self._head(meaning)), request, self.response, self.shape, self.probes)

    def _layer(self, i: int, entry: Meaning) -> tuple[list[Stage], Meaning]:
        """All tokens."""
        norm1, norm2 = self._norms(i)
        middle, end = self._meaning(i, "attention.output"), self._meaning(i, "output")
        attention = BatchAttention.build(
            self._attention(i), self.columns, self.config.head_size, entry, self._specs(i, norm1), *self.splits
        )
        activation = self.specs.layers[i].activation
        forward = BatchForward.build(self._forward(i), self.columns, middle, activation, norm2.entry)
        last = i + 1 == self.config.layers
        self._probe(i, middle, end, self.columns.unpack, weighed=last)
        return [
            *batch.attention_stages(attention),
            *batch.norm_stages(norm1, "y", 1),
            batch.forward_stage(forward),
            *batch.norm_stages(norm2, "x", 2, self.response.check_cell[1] if last else None),
        ], end

    def _last_layer(self, i: int, entry: Meaning) -> tuple[list[Stage], Meaning]:
        """The first token only."""
        norm1, norm2 = self._norms(i)
        middle, end = self._meaning(i, "attention.output"), self._meaning(i, "output")
        attention = BatchFirstToken.build(
            self._attention(i), self.columns, self.config.heads, entry, self._specs(i, norm1)
        )
        activation = self.specs.layers[i].activation
        forward = CellForward.build(self._forward(i), self.cells, middle, activation, norm2.entry)
        self._probe(i, middle, end, lambda slots: self.cells.unpack(slots)[:, None, : self.cells.size])
        return [
            *batch.first_token_stages(attention),
            *batch.cell_norm_stages(CellNorm(norm1, self.cells), "y", 1),
            *forward_stages(forward),
            *batch.cell_norm_stages(CellNorm(norm2, self.cells), "x", 2, self.response.check_cell[1]),
        ], end

    def _head(self, entry: Meaning) -> list[Stage]:
        match self.config.pooling:
            case "pooler":
                return self._pooler_head(entry)
            case "cls":
                answering = CellAnswering.build(*self._classifier(), self.cells, entry, self.response)
                return [batch.answer_stage(answering, "x")]
            case "mean":
                return self._mean_head(entry)
            case unknown:
                raise unknown_pooling(unknown)

    def _pooler_head(self, entry: Meaning) -> list[Stage]:
        assert self.specs.tanh is not None  # check_specs
        pooler = CellPooler.build(*self._dense("pooler.dense"), self.cells, entry, self.specs.tanh)
        answering = CellAnswering.build(*self._classifier(), self.cells, pooler.exit, self.response)
        return [*keeping(FIXED, batch.pooler_stages(pooler)), batch.answer_stage(answering, "t")]

    def _mean_head(self, entry: Meaning) -> list[Stage]:
        answering = MeanAnswering.build(*self._classifier(), self.columns, entry, self.response)
        return [*keeping(FIXED, [batch.mean_stage(answering)]), batch.answer_stage(answering, "t")]

    def _norms(self, i: int) -> tuple[BatchNorm, BatchNorm]:
        s, c, lanes = self.specs.layers[i], self.config, self.shape.lanes
        pairs = ((s.rsqrt1, s.sum1), (s.rsqrt2, s.sum2))
        first, second = (BatchNorm(r, c.norm_eps, bound, c.hidden, lanes) for r, bound in pairs)
        return first, second

    def _specs(self, i: int, norm: BatchNorm) -> BatchAttentionSpecs:
        s = self.specs.layers[i]
        return BatchAttentionSpecs(s.exp, s.inverse, s.context, s.attended, norm.entry, s.rows)

    def _meaning(self, i: int, name: str) -> Meaning:
        return Meaning.normalised(*self._dense(f"{layer_prefix(i)}{name}.LayerNorm"))

    def _classifier(self) -> tuple[Array, Array]:
        if self.config.classes:
            return self._dense("classifier")
        return np.eye(self.config.hidden), np.zeros(self.config.hidden)

    def _dense(self, name: str) -> tuple[Array, Array]:
        return self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]

    def _attention(self, i: int) -> AttentionWeights:
        names = ("self.query", "self.key", "self.value", "output.dense")
        return AttentionWeights(*(a for n in names for a in self._dense(f"{layer_prefix(i)}attention.{n}")))

    def _forward(self, i: int) -> tuple[Array, Array, Array, Array]:
        up, down = (self._dense(f"{layer_prefix(i)}{name}.dense") for name in ("intermediate", "output"))
        return *up, *down

    def _probe(
        self,
        i: int,
        middle: Meaning,
        end: Meaning,
        unpack: Callable[[Sequence[Array]], Array],
        *,
        weighed: bool = False,
    ) -> None:
        """weighed: the layer's result comes times the mask (see `batch.norm_stages`), so there is nothing to compare."""
        for tensor, stage, meaning in (("y", "norm1", middle), ("x", "norm2", end)):
            if not (weighed and tensor == "x"):
                read = partial(_valued, unpack, meaning)
                self.probes[f"layer{i}.{stage}"] = Probe(tensor, 1.0, read, f"layer{i}.{stage}.result")


def _valued(unpack: Callable[[Sequence[Array]], Array], meaning: Meaning, slots: Sequence[Array]) -> Array:
    """Decoded ciphertexts -> (sequences, tokens or 1, hidden)."""
    return np.asarray(unpack(slots) * meaning.scale + meaning.offset)
