"""The second example of docs/guides/add-a-model.md: a BERT of numbers of your own, without a folder."""

from __future__ import annotations

import numpy as np

import tacita
from tacita import api
from tacita.checkpoint import from_tensors, pad_hidden
from tacita.checkpoint.reference import reference
from tacita.models.bert import BertConfig
from tacita.models.registry import tensor_shapes

config = BertConfig(
    layers=1,
    hidden=16,
    heads=2,
    intermediate=32,
    vocab=8,
    positions=64,
    types=2,
    activation="gelu",
    pooling="pooler",
    norm_eps=1e-12,
    labels=("no", "yes"),
    embeddings=False,
)
rng = np.random.default_rng(0)
tensors = {}
for name, shape in tensor_shapes(config).items():
    scale = 1.0 / np.sqrt(shape[-1]) if len(shape) == 2 else 0.1
    tensors[name] = rng.normal(0.0, scale, shape) + (1.0 if name.endswith("LayerNorm.weight") else 0.0)
model = from_tensors(config, tensors, name="random")

# plan it on inputs like those that it will see
samples = [pad_hidden(rng.normal(size=(real, 16)), 8) for real in (5, 6, 7, 8, 8, 8)]
plan = tacita.plan(model, preset="insecure_toy_n10", tokens=8, hidden_states=samples)

# compare the circuit with the float reference
hidden, mask = samples[0]
answer = api.classify_locally(plan, model, hidden_states=hidden[mask > 0])
expected = reference(model, hidden, mask).logits
assert np.max(np.abs(np.array(answer.logits) - expected)) < 0.02, (answer, expected)
