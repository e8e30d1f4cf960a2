"""The iDASH 2024 DASHformer (1 layer, ReLU, mean pooling, 25 classes) as a Checkpoint with its 1000
sequences.

Reads `../shared/data/gausslabs-idash-2024-solution` beside the repository. Matrices are stored (in, out),
row-major, followed by the bias; a token id n uses embedding row n + 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tacita.checkpoint import Checkpoint, from_tensors
from tacita.models.bert import BertConfig

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "gausslabs-idash-2024-solution"
MISSING = "needs ../shared/data/gausslabs-idash-2024-solution beside the repository"
IDS = {letter: n for n, letter in enumerate("ALGVDRESITPKFNQHYMCWXBOU")}
HIDDEN, WIDE, CLASSES = 128, 256, 25


def available() -> bool:
    return DATA.is_dir()


def load_model() -> Checkpoint:
    labels = tuple(str(i) for i in range(CLASSES))
    config = BertConfig(1, HIDDEN, 4, WIDE, 25, 50, 1, "relu", "mean", 1e-6, labels, embeddings=False)
    block = "transformer_block_"
    tensors = _dense("classifier", _weights("classifier_weights"), HIDDEN, CLASSES)
    for name in ("query", "key", "value"):
        stored = _weights(f"{block}{name}_weights")
        tensors |= _dense(f"encoder.layer.0.attention.self.{name}", stored, HIDDEN, HIDDEN)
    stored = _weights(f"{block}combine_weights")
    tensors |= _dense("encoder.layer.0.attention.output.dense", stored, HIDDEN, HIDDEN)
    first, second = np.split(_weights(f"{block}fnn_weights"), [HIDDEN * WIDE + WIDE])
    tensors |= _dense("encoder.layer.0.intermediate.dense", first, HIDDEN, WIDE)
    tensors |= _dense("encoder.layer.0.output.dense", second, WIDE, HIDDEN)
    for name, where in (("norm1", "attention.output"), ("norm2", "output")):
        gamma, beta = np.split(_weights(f"{block}{name}_weights"), 2)
        tensors |= {
            f"encoder.layer.0.{where}.LayerNorm.weight": gamma,
            f"encoder.layer.0.{where}.LayerNorm.bias": beta,
        }
    return from_tensors(config, tensors, name="dashformer")


def load_inputs() -> tuple[np.ndarray, np.ndarray]:
    """Hidden states (1000, 50, 128) and the published probabilities (1000, 25)."""
    lines = (DATA / "example_AA_sequences.list").read_text().splitlines()
    ids = np.array([[IDS[letter] for letter in line.split(",")[0].split()] for line in lines])
    table = _weights("embedding").reshape(25, HIDDEN)
    positions = _weights("positional_encoding").reshape(50, HIDDEN)
    outputs = np.loadtxt(DATA / "test_vector" / "5_classifier.csv", delimiter=",")
    return table[ids + 1] + positions, outputs


def _dense(name: str, stored: np.ndarray, rows: int, columns: int) -> dict[str, np.ndarray]:
    matrix, bias = np.split(stored, [rows * columns])
    return {f"{name}.weight": matrix.reshape(rows, columns).T, f"{name}.bias": bias}


def _weights(name: str) -> np.ndarray:
    text = (DATA / "weights" / f"{name}.csv").read_text()
    return np.array([float(x) for x in text.replace("\n", ",").split(",") if x.strip()])
