"""antiberty (MIT; Ruffolo, Gray and Sulam, "Deciphering antibody affinity maturation with language models and
weakly supervised learning", 2021): a BERT of 8 layers of width 512 over amino acids, with a head for masked
ones and three for the whole sequence. It becomes three folders: species, chain, words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from antibodies import masked_sequences, sequences

from checkpoints.tokens import letter_tokenizer
from checkpoints.wheel import Source, write_config, write_weights
from tacita.checkpoint.formats import TorchFile

FOLDER = "antiberty/trained_models"
WEIGHTS = f"{FOLDER}/AntiBERTy_md_smooth"
# in the order of LABEL_TO_SPECIES and LABEL_TO_CHAIN (antiberty/AntiBERTyRunner.py)
HEADS = {"species": ("Camel", "Human", "Mouse", "Rabbit", "Rat", "Rhesus"), "chain": ("Heavy", "Light")}
FIELDS = (
    *("model_type", "vocab_size", "type_vocab_size", "hidden_size", "intermediate_size", "hidden_act"),
    *("layer_norm_eps", "max_position_embeddings", "num_hidden_layers", "num_attention_heads"),
    *("pad_token_id", "position_embedding_type"),
)
TEXTS = 400


def convert(wheel: Path, output: Path) -> None:
    """A folder for each head; the words of all are the same."""
    tensors = single(TorchFile(wheel / WEIGHTS / "pytorch_model.bin"))
    config = json.loads((wheel / WEIGHTS / "config.json").read_text())
    kept = {name: config[name] for name in FIELDS}
    for head, labels in HEADS.items():
        numbered = {str(number): label for number, label in enumerate(labels)}
        architecture = ["BertForSequenceClassification"]
        write_config(output / head, kept, architectures=architecture, id2label=numbered)
        write_weights(output / head, classifier(tensors, head))
        _texts(output / head, sequences(TEXTS))
    write_config(output / "words", kept, architectures=["BertForMaskedLM"])
    write_weights(output / "words", words(tensors))
    _texts(output / "words", masked_sequences(TEXTS, "[MASK]"))
    lines = (wheel / FOLDER / "vocab.txt").read_text().split("\n")
    for name in (*HEADS, "words"):
        letter_tokenizer(lines).save(str(output / name / "tokenizer.json"))


def _texts(folder: Path, texts: list[str]) -> None:
    (folder / "texts.txt").write_text("\n".join(texts) + "\n")


def single(file: TorchFile) -> dict[str, np.ndarray]:
    """The float32 tensors: buffers of positions are left out."""
    found = file.read(file.names)
    return {
        name: np.frombuffer(one["data"], "<f4").reshape(one["shape"])
        for name, one in found.items()
        if one["dtype"] == "F32"
    }


def classifier(tensors: Mapping[str, np.ndarray], head: str) -> dict[str, np.ndarray]:
    """The encoder with its pooler, and one head of whole sequences under Hugging Face's name."""
    found = {name: t for name, t in tensors.items() if name.startswith("bert.")}
    return found | {f"classifier.{part}": tensors[f"cls.{head}.{part}"] for part in ("weight", "bias")}


def words(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The encoder and the head of masked tokens, whose names are Hugging Face's already."""
    return {name: t for name, t in tensors.items() if name.startswith(("bert.", "cls.predictions."))}


SOURCE = Source("30d910992b190013", convert)
