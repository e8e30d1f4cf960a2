"""BERT: configuration, weight names and the float64 reference that every encrypted run is compared with.

Data flow: hidden states after the embedding LayerNorm (from `checkpoint.embed`, or given) -> post-LN
encoder layers -> pooled vector -> logits (or, for an embedding, the pooled vector, divided by its length where the
model normalises). Padded keys are excluded by an additive -inf mask; padded rows
are computed like all others. Matrices are in torch layout (out, in). Names are Hugging Face's, without the
`bert.` prefix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacita.approx import gelu, power, relu
from tacita.errors import CheckpointError, InputError
from tacita.models.retrained import ORDINARY, Retrained

if TYPE_CHECKING:
    from tacita.checkpoint.load import Checkpoint

Array = NDArray[np.float64]
Record = Callable[[str, Array], None]

ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {"gelu": gelu.exact, "relu": relu.exact}
POOLINGS = (
    "pooler",
    "cls",
    "mean",
)  # tanh(W x + b) of [CLS]; [CLS] as the last layer leaves it; mean over the real tokens
LEAST_LENGTH = 1e-12  # below it a vector is divided by this, as torch.nn.functional.normalize does


@dataclass(frozen=True)
class BertConfig:
    """Sizes and options of one checkpoint.

    classes: 0 when there is no classifier (BertModel); the answer is then the pooled vector. labels: one
    per class. embeddings: False for a model that starts from hidden states and has no embedding tables.
    types: 0 without token types. retrained: what stands in place of softmax and LayerNorm, by default nothing.
    embedding_norm: whether a LayerNorm follows the sum of the embedding tables. pooling: one of `POOLINGS`.
    normalise: whether the answer, then without a classifier, is divided by its length (`finished`).
    """

    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocab: int
    positions: int
    types: int
    activation: str
    pooling: str
    norm_eps: float
    labels: tuple[str, ...]
    embeddings: bool = True
    retrained: Retrained = ORDINARY
    embedding_norm: bool = True
    normalise: bool = False

    @property
    def first_token(self) -> bool:
        """Whether only the first token of the last layer is read: that layer then runs on one query."""
        return self.pooling in ("pooler", "cls")

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads

    @property
    def classes(self) -> int:
        return len(self.labels)

    @property
    def outputs(self) -> int:
        """Length of the answer: classes, or hidden when there is no classifier."""
        return self.classes or self.hidden


@dataclass(frozen=True)
class Reference:
    """logits: shape (outputs,), as a client sees the answer: normalised where the model normalises.

    trace: every recorded intermediate by name, see `reference`.
    """

    logits: Array
    trace: Mapping[str, Array]


def layer_prefix(index: int) -> str:
    """Name prefix of encoder layer `index`."""
    return f"encoder.layer.{index}."


def tensor_shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor that the model needs."""
    shapes = _embedding_shapes(config) if config.embeddings else {}
    for index in range(config.layers):
        shapes |= _layer_shapes(layer_prefix(index), config.hidden, config.intermediate)
    if config.pooling == "pooler":
        shapes |= _dense("pooler.dense", config.hidden, config.hidden)
    if config.classes:
        shapes |= _dense("classifier", config.classes, config.hidden)
    return shapes


def _embedding_shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    sizes = {"word": config.vocab, "position": config.positions, "token_type": config.types}
    tables = {f"embeddings.{name}_embeddings.weight": (size, config.hidden) for name, size in sizes.items() if size}
    return tables | (_norm("embeddings.LayerNorm", config.hidden) if config.embedding_norm else {})


def _layer_shapes(prefix: str, hidden: int, intermediate: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name in ("query", "key", "value"):
        shapes |= _dense(f"{prefix}attention.self.{name}", hidden, hidden)
    shapes |= _dense(f"{prefix}attention.output.dense", hidden, hidden)
    shapes |= _norm(f"{prefix}attention.output.LayerNorm", hidden)
    shapes |= _dense(f"{prefix}intermediate.dense", intermediate, hidden)
    shapes |= _dense(f"{prefix}output.dense", hidden, intermediate)
    return shapes | _norm(f"{prefix}output.LayerNorm", hidden)


def _dense(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def _norm(name: str, size: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}


def reference(checkpoint: Checkpoint, hidden: Array, mask: Array, record: Record | None = None) -> Reference:
    """Float64 forward pass of one input.

    hidden: (tokens, hidden) after the embedding LayerNorm; mask: (tokens,), 1 for a real token, 0 for
    padding. record: called with (name, value) as each intermediate appears; the trace holds the same pairs.
    Names, with i = 0..layers-1: `layer{i}.` + input, scores (heads, tokens, tokens; all keys), log_sum_exp
    (heads, tokens; real keys), context, pre_norm1, centred1, variance1 (tokens,), norm1, activation_input,
    activation, pre_norm2, centred2, variance2, output; then pooler_input (with a pooler), pooled, logits (before they are
    normalised). Variances include epsilon. Errors: InputError on shapes, values or an empty mask.
    """
    _check(checkpoint.config, hidden, mask)
    trace: dict[str, Array] = {}

    def see(name: str, value: Array) -> Array:
        trace[name] = value
        if record is not None:
            record(name, value)
        return value

    for index in range(checkpoint.config.layers):
        hidden = _layer(checkpoint, index, hidden, mask, see)
    return Reference(finished(_head(checkpoint, hidden, mask, see), checkpoint.config.normalise), trace)


def finished(values: Array, normalise: bool) -> Array:
    """What the client makes of a decrypted answer (outputs,): it divides it by its Euclidean length, or leaves it.

    The length is that of sentence-transformers' module Normalize. No ciphertext is normalised: the client has the vector.
    """
    return np.asarray(values / max(length(values), LEAST_LENGTH)) if normalise else values


def length(values: Array) -> float:
    """Euclidean; infinite where it leaves the range of floats."""
    return math.hypot(*values.tolist())


def check_names(config: BertConfig) -> None:
    """Raises CheckpointError for an activation or a pooling that is not one of ours, or a normalised classifier."""
    if config.activation not in ACTIVATIONS:
        raise CheckpointError(f"activation {config.activation!r}", hint=f"supported: {', '.join(ACTIVATIONS)}")
    if config.pooling not in POOLINGS:
        raise CheckpointError(f"pooling {config.pooling!r}", hint=f"supported: {', '.join(POOLINGS)}")
    if config.normalise and config.classes:
        raise CheckpointError("a classifier whose answer is normalised", hint="only embeddings are normalised")


_See = Callable[[str, Array], Array]


def _layer(checkpoint: Checkpoint, index: int, x: Array, mask: Array, see: _See) -> Array:
    name, config = layer_prefix(index), checkpoint.config
    note: _See = lambda key, value: see(f"layer{index}.{key}", value)  # noqa: E731
    note("input", x)
    context = note("context", _attention(checkpoint, index, x, mask, note))
    summed = note("pre_norm1", x + _linear(checkpoint, f"{name}attention.output.dense", context))
    y = note("norm1", _layer_norm(checkpoint, index, "attention.output", summed, note, "1"))
    inner = note("activation_input", _linear(checkpoint, f"{name}intermediate.dense", y))
    wide = note("activation", ACTIVATIONS[config.activation](inner))
    summed = note("pre_norm2", y + _linear(checkpoint, f"{name}output.dense", wide))
    return note("output", _layer_norm(checkpoint, index, "output", summed, note, "2"))


def _attention(checkpoint: Checkpoint, index: int, x: Array, mask: Array, note: _See) -> Array:
    """softmax(Q K^T / sqrt(head size)) V per head, or with bpmax's weights, heads side by side: (tokens, hidden)."""
    config, name = checkpoint.config, layer_prefix(index)
    query, key, value = (
        _linear(checkpoint, f"{name}attention.self.{part}", x).reshape(-1, config.heads, config.head_size)
        for part in ("query", "key", "value")
    )
    scores = note("scores", np.einsum("ihd,jhd->hij", query, key) / math.sqrt(config.head_size))
    masked = scores + np.where(mask > 0.0, 0.0, -np.inf)
    top = masked.max(axis=-1, keepdims=True)
    log_sum = top + np.log(np.exp(masked - top).sum(axis=-1, keepdims=True))
    note("log_sum_exp", log_sum[..., 0])
    weights = _bpmax(config, index, scores, mask) if config.retrained.bpmax else np.exp(masked - log_sum)
    mixed: Array = np.einsum("hij,jhd->ihd", weights, value)
    return mixed.reshape(len(x), config.hidden)


def _bpmax(config: BertConfig, index: int, scores: Array, mask: Array) -> Array:
    """(s + offset)^power / (n R) at the n real keys."""
    r = config.retrained
    return np.asarray(power.exact(scores, r.offset, r.power) * (mask / mask.sum()) / r.denominators[index])


def _layer_norm(checkpoint: Checkpoint, index: int, part: str, x: Array, note: _See, which: str) -> Array:
    name, retrained = f"{layer_prefix(index)}{part}.LayerNorm", checkpoint.config.retrained
    centred = note(f"centred{which}", x - x.mean(axis=-1, keepdims=True))
    variance = note(f"variance{which}", (centred**2).mean(axis=-1) + checkpoint.config.norm_eps)
    deviation = retrained.deviations[index][int(which) - 1] if retrained.batch_norm else np.sqrt(variance)[:, None]
    scaled = centred / deviation
    return np.asarray(scaled * checkpoint.tensors[f"{name}.weight"] + checkpoint.tensors[f"{name}.bias"])


def _head(checkpoint: Checkpoint, x: Array, mask: Array, see: _See) -> Array:
    pooled = see("pooled", _pooled(checkpoint, x, mask, see))
    return see("logits", _linear(checkpoint, "classifier", pooled) if checkpoint.config.classes else pooled)


def _pooled(checkpoint: Checkpoint, x: Array, mask: Array, see: _See) -> Array:
    match checkpoint.config.pooling:
        case "pooler":
            return np.asarray(np.tanh(see("pooler_input", _linear(checkpoint, "pooler.dense", x[0]))))
        case "cls":
            return np.asarray(x[0])
        case "mean":
            return np.asarray(mask @ x / mask.sum())
        case unknown:
            raise CheckpointError(f"reference: pooling {unknown!r}", hint=f"supported: {', '.join(POOLINGS)}")


def _linear(checkpoint: Checkpoint, name: str, x: Array) -> Array:
    return np.asarray(x @ checkpoint.tensors[f"{name}.weight"].T + checkpoint.tensors[f"{name}.bias"])


def _check(config: BertConfig, hidden: Array, mask: Array) -> None:
    if hidden.ndim != 2 or hidden.shape[1] != config.hidden or mask.shape != hidden.shape[:1]:
        raise InputError(
            f"reference: hidden states {hidden.shape} and mask {mask.shape} do not fit hidden size {config.hidden}",
            hint="pass arrays of shape (tokens, hidden) and (tokens,)",
        )
    if not np.isfinite(hidden).all() or not set(np.unique(mask)) <= {0.0, 1.0} or not mask.any():
        raise InputError(
            "reference: hidden states must be finite and the mask 0 or 1 with a real token",
            hint="check the embedding step",
        )
