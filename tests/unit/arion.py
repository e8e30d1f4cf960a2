"""ARION's shipped BERT-Tiny (hidden states of one sentence, all weights, all intermediates) as a Checkpoint.

Reads `../shared/data/hangenba-Arion` beside the repository; `available()` says whether it is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacita.checkpoint import Checkpoint, from_tensors
from tacita.models.bert import BertConfig

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "hangenba-Arion"
MISSING = "needs ../shared/data/hangenba-Arion beside the repository"

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


@dataclass(frozen=True)
class Example:
    """hidden: (tokens, 128) layer input; trace: their float32 intermediates under our names; logits: (2,)."""

    checkpoint: Checkpoint
    hidden: np.ndarray
    trace: dict[str, np.ndarray]
    logits: np.ndarray


def available() -> bool:
    return DATA.is_dir()


def load_example(task: str = "sst2") -> Example:
    """task: "sst2" (fine-tuned, with classifier) or "pretrained" (its `logits` are the pooled vector)."""
    tuned = task == "sst2"
    folder = DATA / ("bert_tiny_data_sst2" if tuned else "bert_tiny_data")
    labels = ("LABEL_0", "LABEL_1") if tuned else ()
    config = BertConfig(2, 128, 2, 512, 1, 512, 2, "gelu", "pooler", 1e-12, labels, embeddings=False)
    tensors = _dense("pooler.dense", folder / "pooler/parms", "pooler_dense_{}")
    if tuned:
        tensors |= _dense("classifier", folder / "classifier/parms", "classifier_{}")
    trace = {"pooler.tanh.argument": _csv(folder / "pooler/allresults/pooler_linear.csv").reshape(1, -1)}
    for layer in range(config.layers):
        root = folder / f"layer_{layer}"
        for name, file in LAYER_FILES.items():
            tensors |= _dense(f"encoder.layer.{layer}.{name}", root, file)
        trace |= {f"layer{layer}.{name}": _csv(root / f"{file}.csv") for name, file in TRACE_FILES.items()}
        scores = f"layer{layer}.attention.scores"  # stored (query, key * heads + head)
        trace[scores] = np.moveaxis(trace[scores].reshape(len(trace[scores]), -1, config.heads), -1, 0)
    hidden = _csv(folder / "layer_0/Attention/BertSelfAttention/allresults/embedded_inputs.csv")
    answer = "classifier/allresults/classifier_logits" if tuned else "pooler/allresults/pooler_tanh_output"
    logits = _csv(folder / f"{answer}.csv").ravel()
    return Example(from_tensors(config, tensors, name=f"arion-{task}"), hidden, trace, logits)


def perturbed(hidden: np.ndarray, count: int, noise: float, seed: int = 0) -> list[np.ndarray]:
    """Inputs to calibrate on in place of the one sentence that there is: its token vectors in another order,
    each with noise.

    hidden: (tokens, features). noise: standard deviation, as a share of each feature's over the tokens. No
    row of the result is a row of the sentence.
    """
    rng, spread = np.random.default_rng(seed), noise * hidden.std(axis=0)
    return [rng.permutation(hidden) + rng.normal(size=hidden.shape) * spread for _ in range(count)]


def _dense(name: str, folder: Path, file: str) -> dict[str, np.ndarray]:
    weight, bias = (_csv(folder / f"{file.format(part)}.csv") for part in ("weight", "bias"))
    return {f"{name}.weight": weight.ravel() if "LayerNorm" in name else weight, f"{name}.bias": bias.ravel()}


def _csv(path: Path) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", ndmin=2)
