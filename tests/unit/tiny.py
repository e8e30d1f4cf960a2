"""Random checkpoints of any shape, and a calibration of them from one input: enough to test circuits.

The intervals are those of the inputs that are tested. What a circuit does on inputs that it was not fitted to is tested by
`test_disjoint_calibration.py`.
"""

from __future__ import annotations

import numpy as np

from tacita.approx import exp, gelu, inverse, relu, rsqrt, tanh
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.models.bert import BertConfig, tensor_shapes
from tacita.models.reference import Reference, reference
from tacita.packings.rows.circuit import CircuitSpecs, LayerSpecs


def checkpoint(
    *, layers=1, hidden=16, heads=2, ff=32, activation="gelu", pooling="pooler", classes=2, normalise=False, seed=0
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
    t = run.trace
    layers = tuple(_layer(model, t, i, mask, error) for i in range(model.config.layers))
    top = tanh.fit(interval(t["pooler.tanh.argument"]), error) if "pooler.tanh.argument" in t else None
    return CircuitSpecs(layers, bound(t["layer0.attention.input"]), top, bound(run.logits, 2.0))


def _layer(model, t, i, mask, error) -> LayerSpecs:
    def at(name):
        return t[f"layer{i}.{name}"]

    scores = interval(at("attention.scores"))
    shift = scores[1]
    sums = np.exp(at("attention.log_sum_exp") - shift) / mask.sum()  # means: the client's masks hold 1/n
    activate = {"gelu": gelu, "relu": relu}[model.config.activation]
    context = at("attention.context").reshape(len(mask), model.config.heads, -1) * sums.T[:, :, None]
    return LayerSpecs(
        exp=exp.fit(scores, error * float(sums.min()), shift=shift),
        inverse=inverse.fit(positive(sums), error),
        rsqrt1=rsqrt.fit(positive(at("norm1.variance")), error),
        rsqrt2=rsqrt.fit(positive(at("norm2.variance")), error),
        activation=activate.fit(
            interval(at("feed_forward.argument")), error if model.config.activation == "gelu" else 0.02
        ),
        context=bound(context),
        attended=bound(at("attention.context")),
        sum1=bound(at("norm1.sum") - at("norm1.sum").mean(axis=1, keepdims=True)),
        norm1=bound(at("norm1.result")),
        sum2=bound(at("norm2.sum") - at("norm2.sum").mean(axis=1, keepdims=True)),
        output=bound(at("norm2.result")),
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
