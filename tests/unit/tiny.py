"""Random checkpoints of any shape, and a calibration of them from one input: enough to test circuits.

The intervals are those of the inputs that are tested. What a circuit does on inputs that it was not fitted to
is tested by `planning/test_population.py`.
"""

from __future__ import annotations

import numpy as np

from tacita.approx import exp, inverse, rsqrt
from tacita.approx.activations import gelu, relu, tanh
from tacita.blocks.base import Attention, FeedForward, Norm
from tacita.blocks.shapes import Function, function_of
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.checkpoint.reference import Reference, reference
from tacita.models.bert import BertConfig
from tacita.models.registry import nodes, tensor_shapes
from tacita.packings.specs import AttentionSpecs, CircuitSpecs, FunctionSpecs, NodeSpecs, NormSpecs


def checkpoint(
    *,
    layers=1,
    hidden=16,
    heads=2,
    ff=32,
    activation="gelu",
    pooling="pooler",
    classes=2,
    normalise=False,
    seed=0,
) -> Checkpoint:
    config = BertConfig(
        layers=layers,
        hidden=hidden,
        heads=heads,
        intermediate=ff,
        vocab=8,
        positions=512,
        types=2,
        activation=activation,
        pooling=pooling,
        norm_eps=1e-12,
        labels=tuple(f"L{i}" for i in range(classes)),
        embeddings=False,
        normalise=normalise,
    )
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in tensor_shapes(config).items():
        scale = 1.0 / np.sqrt(shape[-1]) if len(shape) == 2 else 0.1
        tensors[name] = rng.normal(0.0, scale, shape) + (1.0 if name.endswith("LayerNorm.weight") else 0.0)
    return from_tensors(config, tensors)


def inputs(model: Checkpoint, tokens: int, real: int, seed: int = 1):
    """(hidden states, mask) with `real` tokens before the padding."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(tokens, model.config.hidden)), (np.arange(tokens) < real).astype(float)


def bound(x, margin=1.25) -> float:
    return float(np.max(np.abs(x))) * margin


def interval(x, margin=0.2):
    low, high = float(np.min(x)), float(np.max(x))
    return low - margin * (high - low), high + margin * (high - low)


def positive(x, ratio=1.5):
    return float(np.min(x)) / ratio, float(np.max(x)) * ratio


def specs(model: Checkpoint, run: Reference, mask, error=1e-5) -> CircuitSpecs:
    """Intervals of this one run, widened."""
    found = {name: _node(node, name, run.trace, mask, error) for name, node in nodes(model.config).items()}
    entry = bound(run.trace["layer0.attention.input"])
    return CircuitSpecs({name: made for name, made in found.items() if made}, entry, bound(run.logits, 2.0))


def _node(node, name, trace, mask, error) -> NodeSpecs | None:
    def at(key):
        return trace[f"{name}.{key}"]

    match node:
        case Attention():
            return _attention(at, node.heads, mask, error)
        case Norm():
            centred = bound(at("sum") - at("sum").mean(axis=1, keepdims=True))
            return NormSpecs(rsqrt.fit(positive(at("variance")), error), centred, bound(at("result")))
        case FeedForward() | Function():
            kind = function_of(node)
            fit = {"gelu": gelu, "relu": relu, "tanh": tanh}[kind].fit
            return FunctionSpecs(fit(interval(at("argument")), 0.02 if kind == "relu" else error))
    return None


def _attention(at, heads, mask, error) -> AttentionSpecs:
    scores = interval(at("scores"))
    shift = scores[1]
    sums = np.exp(at("log_sum_exp") - shift) / mask.sum()  # means: the client's masks hold 1/n
    context = at("context").reshape(len(mask), heads, -1) * sums.T[:, :, None]
    return AttentionSpecs(
        exp=exp.fit(scores, error * float(sums.min()), shift=shift),
        inverse=inverse.fit(positive(sums), error),
        context=bound(context),
        attended=bound(at("context")),
    )


def run_reference(model: Checkpoint, hidden, mask) -> Reference:
    return reference(model, hidden, mask)


def joint_specs(model: Checkpoint, runs, masks, error=1e-5) -> CircuitSpecs:
    """Intervals of several runs together."""
    total = sum(len(mask) for mask in masks)
    trace = {name: _joined(name, [run.trace[name] for run in runs], masks) for name in runs[0].trace}
    unit = np.full(total, 1.0 / total)  # the sums below are means already
    return specs(model, Reference(np.concatenate([run.logits for run in runs]), trace), unit, error)


def _joined(name: str, values, masks):
    if name.endswith("log_sum_exp"):
        return np.concatenate([v - np.log(m.sum()) for v, m in zip(values, masks, strict=True)], axis=1)
    if name.endswith("scores"):
        return np.concatenate([v.reshape(len(v), -1) for v in values], axis=1)
    return np.concatenate([np.atleast_1d(v) for v in values], axis=0)
