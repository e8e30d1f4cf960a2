"""Trained models of which ARION and MOAI published the values of one sentence: a Checkpoint, and the values.

*ARION's BERT-Tiny* (`sst2`, `pretrained`) is whole. Of *its BERT-base* (`base`) there are the norms and what
every product takes and makes of five tokens, without the matrices. The matrix of least norm that makes the
one of the other stands for each, layer by layer: every value of this sentence is then the trained model's,
and of other sentences it says nothing. *MOAI's head* (`head`) is one of BERT-base's twelve, with eleven
tokens and what it makes of them. Here all heads of a layer are that one; its result is stored as it is and
negated by turns, so that it changes no mean, and a few features pass the feed-forward.

Reads `../shared/data` beside the repository; `available()` says whether it is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import options
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.errors import InputError, nearest
from tacita.models.bert import BertConfig, layer_prefix
from tacita.models.registry import tensor_shapes

Array = NDArray[np.float64]
DATA = options.DATA / "hangenba-Arion"
HEAD = options.DATA / "dtc2025ag-MOAI_GPU" / "bert_base_head1"
MISSING = "needs ../shared/data/hangenba-Arion and dtc2025ag-MOAI_GPU beside the repository"
WEIGHTS = ("sst2", "pretrained", "base", "head")
TINY, BASE = (2, 128, 2, 512), (1, 768, 12, 3072)  # layers, hidden, heads, intermediate
LAYERS = 12  # of BERT-base, each by itself

LAYER_FILES = {
    "attention.self.query": "Attention/BertSelfAttention/parms/query_{}",
    "attention.self.key": "Attention/BertSelfAttention/parms/key_{}",
    "attention.self.value": "Attention/BertSelfAttention/parms/value_{}",
    "attention.output.dense": "Attention/SelfOutput/parms/self_output_dense_{}",
    "attention.output.LayerNorm": "Attention/SelfOutput/parms/self_output_LayerNorm_{}",
    "intermediate.dense": "Intermediate/parms/intermediate_dense_{}",
    "output.dense": "Output/parms/final_output_dense_{}",
    "output.LayerNorm": "Output/parms/final_output_LayerNorm_{}",
}
TRACE_FILES = {
    "attention.scores": "Attention/BertSelfAttention/allresults/QKT",
    "attention.context": "Attention/BertSelfAttention/allresults/real_attention",
    "norm1.sum": "Attention/SelfOutput/allresults/self_output_residual_connection_before_layernorm",
    "norm1.result": "Attention/SelfOutput/allresults/real_self_output",
    "feed_forward.argument": "Intermediate/allresults/intermediate_output_after_linear",
    "feed_forward.result": "Intermediate/allresults/real_intermediate_output",
    "norm2.sum": "Output/allresults/final_output_residual_connection_before_layernorm",
    "norm2.result": "Output/allresults/real_final_output",
}
SEEN, MIXED = "Attention/BertSelfAttention/allresults", "Attention/SelfOutput/allresults"
PRODUCTS = {  # of BERT-base: what each takes and makes
    "attention.self.query": (f"{SEEN}/inputs", f"{SEEN}/Q"),
    "attention.self.key": (f"{SEEN}/inputs", f"{SEEN}/K"),
    "attention.self.value": (f"{SEEN}/inputs", f"{SEEN}/V"),
    "attention.output.dense": (f"{SEEN}/real_attention", f"{MIXED}/self_output_after_linear"),
    "intermediate.dense": (TRACE_FILES["norm1.result"], TRACE_FILES["feed_forward.argument"]),
    "output.dense": (TRACE_FILES["feed_forward.result"], "Output/allresults/final_output_after_linear"),
}


@dataclass(frozen=True)
class Example:
    """hidden: (tokens, features) layer input; trace: their float32 intermediates under our names; logits:
    (outputs,), none of a head and of a layer in the middle. encrypted: what ARION's ciphertexts decrypted to
    behind this layer of BERT-base, having passed those before it; None of others."""

    checkpoint: Checkpoint
    hidden: Array
    trace: dict[str, Array]
    logits: Array
    encrypted: Array | None = None


def available() -> bool:
    """Whether the data are there."""
    return DATA.is_dir() and HEAD.is_dir()


def load_example(weights: str = "sst2", layer: int = 0) -> Example:
    """weights: one of `WEIGHTS`: "sst2" (fine-tuned, with classifier), "pretrained", "base", "head". layer:
    of "base", from the published input of that layer, and the pooler behind the last. Without a classifier
    `logits` are the pooled vector. Raises InputError for weights and a layer that there are not."""
    if weights not in WEIGHTS:
        raise InputError(f"no weights {weights!r:.40}", hint=nearest(weights, WEIGHTS))
    if layer and not (weights == "base" and 0 <= layer < LAYERS):
        raise InputError(f"layer {layer} of {weights}", hint=f"0 to {LAYERS - 1} of base")
    return _head() if weights == "head" else _base(layer) if weights == "base" else _tiny(weights == "sst2")


def _tiny(tuned: bool) -> Example:
    name = "sst2" if tuned else "pretrained"
    folder = DATA / ("bert_tiny_data_sst2" if tuned else "bert_tiny_data")
    config = _config(TINY, "pooler", ("LABEL_0", "LABEL_1") if tuned else ())
    tensors = _dense("pooler.dense", folder / "pooler/parms", "pooler_dense_{}")
    if tuned:
        tensors |= _dense("classifier", folder / "classifier/parms", "classifier_{}")
    trace = {"pooler.tanh.argument": _csv(folder / "pooler/allresults/pooler_linear").reshape(1, -1)}
    for layer in range(config.layers):
        root = folder / f"layer_{layer}"
        for part, file in LAYER_FILES.items():
            tensors |= _dense(layer_prefix(layer) + part, root, file)
        trace |= _trace(root, layer, config)
    hidden = _csv(folder / "layer_0" / SEEN / "embedded_inputs")
    answer = "classifier/allresults/classifier_logits" if tuned else "pooler/allresults/pooler_tanh_output"
    model = from_tensors(config, tensors, name=f"arion-{name}")
    return Example(model, hidden, trace, _csv(folder / answer).ravel())


def _base(layer: int) -> Example:
    folder, last = DATA / "bert_base_activations", layer == LAYERS - 1
    root, at = folder / f"layer_{layer}", layer_prefix(0)
    config, tensors = _config(BASE, "pooler" if last else "mean"), dict[str, Array]()
    for part, (taken, made) in PRODUCTS.items():
        tensors |= _least(at + part, _csv(root / taken), _csv(root / made))
    for part, file in LAYER_FILES.items():
        tensors |= _dense(at + part, root, file) if "LayerNorm" in part else {}
    trace, logits = _trace(root, 0, config), np.zeros(0)
    if last:
        argument = trace["pooler.tanh.argument"] = _csv(folder / "pooler_allresults/pooler_linear").T
        logits = _csv(folder / "pooler_allresults/pooler_tanh_output").ravel()
        tensors |= _least("pooler.dense", trace["layer0.norm2.result"][:1], argument)
    model = from_tensors(config, tensors, name=f"arion-base-layer{layer}")
    encrypted = _csv(DATA / f"encrypted_outputs/bert_base_data_5/layer_{layer}_output")
    return Example(model, _csv(root / SEEN / "inputs"), trace, logits, encrypted)


def _trace(root: Path, layer: int, config: BertConfig) -> dict[str, Array]:
    trace = {f"layer{layer}.{name}": _csv(root / file) for name, file in TRACE_FILES.items()}
    scores = f"layer{layer}.attention.scores"  # stored (query, key * heads + head)
    stored: NDArray[Any] = trace[scores].reshape(len(trace[scores]), -1, config.heads)
    return trace | {scores: np.moveaxis(stored, -1, 0)}


def _head() -> Example:
    _, hidden, heads, _ = BASE
    config = _config((1, hidden, heads, heads), "mean")
    at, tensors = layer_prefix(0), {name: np.zeros(shape) for name, shape in tensor_shapes(config).items()}
    for side in ("query", "key", "value"):
        weight, bias = (_csv(HEAD / f"{side}_{part}_head1") for part in ("weight", "bias"))
        name = f"{at}attention.self.{side}"
        tensors |= {
            f"{name}.weight": np.tile(weight, (heads, 1)),
            f"{name}.bias": np.tile(bias.ravel(), heads),
        }
    signs = np.repeat(np.tile([1.0, -1.0], heads // 2), hidden // heads)
    tensors[f"{at}attention.output.dense.weight"] = np.diag(signs)
    for side, shape in (("intermediate", (heads, hidden)), ("output", (hidden, heads))):
        tensors[f"{at}{side}.dense.weight"] = np.eye(*shape)
    for norm in ("attention.output", "output"):
        tensors[f"{at}{norm}.LayerNorm.weight"] = np.ones(hidden)
    context = np.tile(_csv(HEAD / "real_attention"), heads)
    model = from_tensors(config, tensors, name="moai-head")
    return Example(model, _csv(HEAD / "embedded_inputs"), {"layer0.attention.context": context}, np.zeros(0))


def _config(sizes: tuple[int, int, int, int], pooling: str, labels: tuple[str, ...] = ()) -> BertConfig:
    return BertConfig(*sizes, 1, 512, 2, "gelu", pooling, 1e-12, labels, embeddings=False)


def _least(name: str, inputs: Array, outputs: Array) -> dict[str, Array]:
    """The matrix of least norm that takes the rows of inputs to those of outputs."""
    weight = np.asarray((np.linalg.pinv(inputs) @ outputs).T)
    return {f"{name}.weight": weight, f"{name}.bias": np.zeros(len(weight))}


def _dense(name: str, folder: Path, file: str) -> dict[str, Array]:
    weight, bias = (_csv(folder / file.format(part)) for part in ("weight", "bias"))
    return {f"{name}.weight": weight.ravel() if "LayerNorm" in name else weight, f"{name}.bias": bias.ravel()}


def _csv(path: Path) -> Array:
    """path: without its ending."""
    (file,) = (file for end in (".csv", ".txt") if (file := path.with_name(path.name + end)).is_file())
    return np.loadtxt(file, delimiter=",", ndmin=2)
