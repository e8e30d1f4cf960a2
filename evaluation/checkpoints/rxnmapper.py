"""rxnmapper (MIT; Schwaller et al., "Extraction of organic chemistry grammar from unsupervised learning of
chemical reactions", 2021): an ALBERT whose one layer of width 256 is used 12 times, trained to fill masked
tokens of reactions. Some of its heads of attention say which atom of a product was which atom before.
"""

from __future__ import annotations

import json
from pathlib import Path

from reactions import masked_reactions
from torch_pickle import read

from checkpoints.tokens import smiles_tokenizer
from checkpoints.wheel import Source, write_config, write_weights

REACTIONS = 1000
FOLDER = "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"
FIELDS = (
    *("architectures", "model_type", "vocab_size", "type_vocab_size", "embedding_size", "hidden_size"),
    *("intermediate_size", "hidden_act", "layer_norm_eps", "max_position_embeddings", "num_hidden_layers"),
    *("num_attention_heads", "num_hidden_groups", "inner_group_num", "pad_token_id"),
)


def convert(wheel: Path, output: Path) -> None:
    """The model of masked tokens, and reactions with a masked token each."""
    folder = wheel / FOLDER
    config = json.loads((folder / "config.json").read_text())
    write_config(output, {name: config[name] for name in FIELDS})
    write_weights(output, read(folder / "pytorch_model.bin"))
    smiles_tokenizer((folder / "vocab.txt").read_text().split("\n")).save(str(output / "tokenizer.json"))
    (output / "texts.txt").write_text("\n".join(masked_reactions(REACTIONS)) + "\n")


SOURCE = Source("27876a4286881aaf", convert)
