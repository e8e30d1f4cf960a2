"""sapiens (MIT; Prihoda et al., "BioPhi: a platform for antibody design, humanization, and humanness
evaluation", 2022): two RoBERTa models of 4 layers of width 128 over amino acids, of heavy chains and of
light ones, that were trained on human antibodies. What they put in the place of a masked amino acid is what a
human antibody would have there. They become two folders: vh, vl.

fairseq wrote the files. Its dictionary has four tokens before those of the file and <mask> behind them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from antibodies import HEAVY, LIGHT, masked_sequences
from torch_pickle import read

from checkpoints.tokens import ROBERTA, letter_tokenizer
from checkpoints.wheel import Source, write_config, write_weights

FOLDER = "sapiens/models/v1"
CHAINS = {"vh": HEAVY, "vl": LIGHT}
HEADS, PADDING = 8, 1
TEXTS = 400
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


def convert(wheel: Path, output: Path) -> None:
    """Both chains; those of a chain are masked for its model."""
    lines = vocabulary((wheel / FOLDER / "dict.txt").read_text())
    for chain, genes in CHAINS.items():
        tensors = named(read(wheel / FOLDER / f"checkpoint_{chain}.pt", inside="model"))
        write_config(output / chain, sizes(tensors))
        write_weights(output / chain, tensors)
        letter_tokenizer(lines, ROBERTA).save(str(output / chain / "tokenizer.json"))
        texts = masked_sequences(TEXTS, "<mask>", genes=genes)
        (output / chain / "texts.txt").write_text("\n".join(texts) + "\n")


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
        "num_attention_heads": HEADS,
        "intermediate_size": wide.shape[0],
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": tensors["roberta.embeddings.position_embeddings.weight"].shape[0],
        "type_vocab_size": 0,
        "pad_token_id": PADDING,
    }


SOURCE = Source("af1a8d445e9d7ab9", convert)
