"""The DASHformer of iDASH 2024, as published by gausslabs -> a Hugging Face-like folder and labelled
sequences.

Reads `weights/*.csv`: each matrix (in, out) row-major, followed by its bias; token id n of the competition
has embedding row n + 1. Writes config.json (BERT with ReLU, mean pooling, no token types, no LayerNorm after
the embedding), model.safetensors (float32, as published; matrices (out, in)), tokenizer.json (a word per
amino acid, spaces optional, nothing added) and sequences.tsv (header, then sequence, tab, label number).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from bench.models.folder import write_config, write_weights
from tacita.errors import CheckpointError

WEIGHTS, LIST, SEQUENCES = "weights", "example_AA_sequences.list", "sequences.tsv"
LETTERS = "ALGVDRESITPKFNQHYMCWXBOU"  # by token id
TOKENS, HIDDEN, HEADS, WIDE, CLASSES = 50, 128, 4, 256, 25
BLOCK = "transformer_block_"
LAYER = "encoder.layer.0."
CONFIG = {
    "architectures": ["BertForSequenceClassification"],
    "model_type": "bert",
    "num_hidden_layers": 1,
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "intermediate_size": WIDE,
    "vocab_size": len(LETTERS) + 1,
    "max_position_embeddings": TOKENS,
    "type_vocab_size": 0,
    "emb_layer_norm_before": False,
    "hidden_act": "relu",
    "layer_norm_eps": 1e-6,
    "classifier_pooling": "mean",
    "id2label": {str(i): str(i) for i in range(CLASSES)},
}

Array = npt.NDArray[np.float64]
Tensors = dict[str, Array]


def is_published(folder: Path) -> bool:
    """Whether this looks like the published data: their folder of weights and their list of sequences."""
    return (folder / WEIGHTS).is_dir() and (folder / LIST).is_file()


def convert(data: Path, output: Path) -> Path:
    """Writes the folder; returns it. Raises CheckpointError when the data are not the published ones."""
    try:
        tensors, rows = read_tensors(data / WEIGHTS), sequences(data / LIST)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{data}: not the published DASHformer ({error})",
            hint=f"its folder has {WEIGHTS}/*.csv and {LIST}",
        ) from error
    write_config(output, CONFIG)
    write_weights(output, tensors)
    tokenizer().save(str(output / "tokenizer.json"))
    (output / SEQUENCES).write_text(rows)
    return output


def read_tensors(weights: Path) -> Tensors:
    """Returns all tensors by Hugging Face name."""
    tensors = _dense("classifier", _read(weights / "classifier_weights.csv"), HIDDEN, CLASSES)
    parts = {"query": "self.query", "key": "self.key", "value": "self.value", "combine": "output.dense"}
    for file, name in parts.items():
        stored = _read(weights / f"{BLOCK}{file}_weights.csv")
        tensors |= _dense(f"{LAYER}attention.{name}", stored, HIDDEN, HIDDEN)
    up, down = np.split(_read(weights / f"{BLOCK}fnn_weights.csv"), [(HIDDEN + 1) * WIDE])
    tensors |= _dense(f"{LAYER}intermediate.dense", up, HIDDEN, WIDE)
    tensors |= _dense(f"{LAYER}output.dense", down, WIDE, HIDDEN)
    for file, name in (("norm1", "attention.output"), ("norm2", "output")):
        gamma, beta = np.split(_read(weights / f"{BLOCK}{file}_weights.csv"), 2)
        tensors |= {f"{LAYER}{name}.LayerNorm.weight": gamma, f"{LAYER}{name}.LayerNorm.bias": beta}
    for file, name, rows in (
        ("embedding", "word", len(LETTERS) + 1),
        ("positional_encoding", "position", TOKENS),
    ):
        tensors[f"embeddings.{name}_embeddings.weight"] = _read(weights / f"{file}.csv").reshape(rows, HIDDEN)
    return tensors


def tokenizer() -> Tokenizer:
    """Builds a tokenizer of one token per letter, ids 1..24; other characters are refused, since the
    vocabulary has no unknown token."""
    result = Tokenizer(
        models.WordLevel({letter: n + 1 for n, letter in enumerate(LETTERS)}, unk_token="[UNK]")
    )
    letters = pre_tokenizers.Split(Regex("."), behavior="isolated")
    result.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), letters])
    return result


def sequences(path: Path) -> str:
    """The published list "A L ...,label" as tab-separated text with a header."""
    lines = [line.rpartition(",") for line in path.read_text().splitlines() if line.strip()]
    return "\n".join(["sentence\tlabel", *(f"{letters}\t{int(label)}" for letters, _, label in lines)]) + "\n"


def _dense(name: str, stored: Array, rows: int, columns: int) -> Tensors:
    matrix, bias = np.split(stored, [rows * columns])
    return {f"{name}.weight": matrix.reshape(rows, columns).T, f"{name}.bias": bias}


def _read(path: Path) -> Array:
    return np.array([float(x) for x in path.read_text().replace("\n", ",").split(",") if x.strip()])
