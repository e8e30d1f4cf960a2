"""Trained models of antibodies, and variable regions of antibodies as texts for them, one a line.

antiberty (MIT; Ruffolo, Gray and Sulam, "Deciphering antibody affinity maturation with language models and
weakly supervised learning", 2021) is a BERT of 8 layers of width 512 over amino acids, with a head for masked
ones and three for the whole sequence. It becomes three folders: species, chain, words.

sapiens (MIT; Prihoda et al., "BioPhi: a platform for antibody design, humanization, and humanness
evaluation", 2022) are two RoBERTa models of 4 layers of width 128 over amino acids, of heavy chains and of
light ones, that were trained on human antibodies. What they put in the place of a masked amino acid is what a
human antibody would have there. They become two folders: vh, vl. fairseq wrote the files. Its dictionary has
four tokens before those of the file and <mask> behind them.

A made-up sequence is a germline gene of `germlines.txt`, random amino acids where the third loop is, the
published end of its chain, and a few random mutations. No organism made them; they are of the kind that the
models were trained on."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.models.folder import LETTER, ROBERTA, Source, matching_tokenizer, write_config, write_weights
from bench.models.torch_pickle import read
from tacita.checkpoint.weights import TorchFile

AMINO = "ACDEFGHIKLMNPQRSTVWY"
HEAVY, LIGHT = ("IGHV",), ("IGKV", "IGLV")
ENDS = {"IGHV": "WGQGTLVTVSS", "IGKV": "TFGQGTKVEIK", "IGLV": "VFGGGTKLTVL"}  # of the genes that join
LOOP = {"IGHV": (5, 10), "IGKV": (0, 1), "IGLV": (0, 1)}  # the fewest and most amino acids between both
MUTATIONS = (0, 8)
FILE = Path(__file__).with_name("germlines.txt")


def germlines(genes: Sequence[str]) -> list[tuple[str, str]]:
    """Gene and amino acids, of those whose names begin so."""
    lines = [line.split() for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return [(name, letters) for name, letters in lines if name.startswith(tuple(genes))]


def sequences(count: int, genes: Sequence[str] = HEAVY + LIGHT) -> list[str]:
    """So many different ones, of random genes."""
    r, known, found = random.Random(1), germlines(genes), dict[str, None]()
    while len(found) < count:
        found.setdefault(_sequence(r, *r.choice(known)))
    return list(found)


def masked_sequences(count: int, mask: str, genes: Sequence[str] = HEAVY + LIGHT) -> list[str]:
    """Returns `sequences` with three amino acids of each one replaced by the mask."""
    r = random.Random(1)
    return [_masked(r, sequence, mask) for sequence in sequences(count, genes)]


def _sequence(r: random.Random, gene: str, letters: str) -> str:
    kind = gene[:4]
    loop = "".join(r.choices(AMINO, k=r.randint(*LOOP[kind])))
    found = list(letters + loop + ENDS[kind])
    for at in r.sample(range(len(letters)), r.randint(*MUTATIONS)):
        found[at] = r.choice(AMINO)
    return "".join(found)


def _masked(r: random.Random, sequence: str, mask: str) -> str:
    hidden = set(r.sample(range(len(sequence)), 3))
    return "".join(mask if at in hidden else letter for at, letter in enumerate(sequence))


ANTIBERTY_FOLDER = "antiberty/trained_models"
WEIGHTS = f"{ANTIBERTY_FOLDER}/AntiBERTy_md_smooth"
# in the order of LABEL_TO_SPECIES and LABEL_TO_CHAIN (antiberty/AntiBERTyRunner.py)
HEADS = {"species": ("Camel", "Human", "Mouse", "Rabbit", "Rat", "Rhesus"), "chain": ("Heavy", "Light")}
FIELDS = (
    *("model_type", "vocab_size", "type_vocab_size", "hidden_size", "intermediate_size", "hidden_act"),
    *("layer_norm_eps", "max_position_embeddings", "num_hidden_layers", "num_attention_heads"),
    *("pad_token_id", "position_embedding_type"),
)
TEXTS = 400


def convert_antiberty(wheel: Path, output: Path) -> None:
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
    lines = (wheel / ANTIBERTY_FOLDER / "vocab.txt").read_text().split("\n")
    for name in (*HEADS, "words"):
        matching_tokenizer(lines, LETTER).save(str(output / name / "tokenizer.json"))


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


ANTIBERTY = Source("30d910992b190013", convert_antiberty)


SAPIENS_FOLDER = "sapiens/models/v1"
CHAINS = {"vh": HEAVY, "vl": LIGHT}
ATTENTION_HEADS, PADDING = 8, 1
# pieces of fairseq's names -> Hugging Face's, in this order
PARTS = {
    "decoder.sentence_encoder.embed_tokens": "roberta.embeddings.word_embeddings",
    "decoder.sentence_encoder.embed_positions": "roberta.embeddings.position_embeddings",
    "decoder.sentence_encoder.emb_layer_norm": "roberta.embeddings.LayerNorm",
    "decoder.sentence_encoder.layers.": "roberta.encoder.layer.",
    "decoder.lm_head.": "lm_head.",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "final_layer_norm": "output.LayerNorm",
    "self_attn.q_proj": "attention.self.query",
    "self_attn.k_proj": "attention.self.key",
    "self_attn.v_proj": "attention.self.value",
    "self_attn.out_proj": "attention.output.dense",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "lm_head.weight": "lm_head.decoder.weight",
}


def convert_sapiens(wheel: Path, output: Path) -> None:
    """Both chains; those of a chain are masked for its model."""
    lines = vocabulary((wheel / SAPIENS_FOLDER / "dict.txt").read_text())
    for chain, genes in CHAINS.items():
        tensors = named(read(wheel / SAPIENS_FOLDER / f"checkpoint_{chain}.pt", inside="model"))
        write_config(output / chain, sizes(tensors))
        write_weights(output / chain, tensors)
        matching_tokenizer(lines, LETTER, ROBERTA).save(str(output / chain / "tokenizer.json"))
        _texts(output / chain, masked_sequences(TEXTS, "<mask>", genes=genes))


def vocabulary(dictionary: str) -> list[str]:
    """fairseq's dictionary, a token and its count a line -> tokens in the order of their numbers.

    >>> vocabulary("A 1")
    ['<s>', '<pad>', '</s>', '<unk>', 'A', '<mask>']
    """
    listed = [line.split(" ")[0] for line in dictionary.splitlines()]
    return ["<s>", "<pad>", "</s>", "<unk>", *listed, "<mask>"]


def named(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Under Hugging Face's names. Raises ValueError for a tensor that has none."""
    found = {spelled(name): tensor for name, tensor in tensors.items() if name.startswith("decoder.")}
    found["lm_head.decoder.bias"] = found.pop("lm_head.bias")
    return found


def spelled(name: str) -> str:
    """
    >>> spelled("decoder.sentence_encoder.layers.2.self_attn.k_proj.bias")
    'roberta.encoder.layer.2.attention.self.key.bias'
    """
    result = name
    for ours, theirs in PARTS.items():
        result = result.replace(ours, theirs)
    if not re.match(r"roberta\.|lm_head\.", result):
        raise ValueError(f"tensor {name}: no name for it")
    return result


def sizes(tensors: Mapping[str, np.ndarray]) -> dict[str, object]:
    """config.json: what the shapes do not say, the number of heads, is the architecture's (roberta.py)."""
    words = tensors["roberta.embeddings.word_embeddings.weight"]
    layers = {found[1] for name in tensors if (found := re.search(r"encoder\.layer\.(\d+)\.", name))}
    wide = tensors["roberta.encoder.layer.0.intermediate.dense.weight"]
    return {
        "architectures": ["RobertaForMaskedLM"],
        "model_type": "roberta",
        "vocab_size": words.shape[0],
        "hidden_size": words.shape[1],
        "num_hidden_layers": len(layers),
        "num_attention_heads": ATTENTION_HEADS,
        "intermediate_size": wide.shape[0],
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": tensors["roberta.embeddings.position_embeddings.weight"].shape[0],
        "type_vocab_size": 0,
        "pad_token_id": PADDING,
    }


SAPIENS = Source("af1a8d445e9d7ab9", convert_sapiens)
