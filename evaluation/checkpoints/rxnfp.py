"""rxnfp (MIT; Schwaller et al., "Mapping the space of chemical reactions using attention-based neural
networks", 2021): a BERT of 12 layers of width 256 that tells 50 classes of reactions apart. A text is a
reaction in SMILES, a token an atom or a bond.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from reactions import reactions
from torch_pickle import read

from checkpoints.tokens import smiles_tokenizer
from checkpoints.wheel import Source, write_config, write_weights

REACTIONS = 1000
FOLDER = "rxnfp/models/transformers/bert_ft_10k_25s"
FIELDS = ("architectures", "model_type", "type_vocab_size", "vocab_size")


def convert(wheel: Path, output: Path) -> None:
    """The classifier with a tokenizer in one file, and reactions to classify."""
    folder = wheel / FOLDER
    config = json.loads((folder / "config.json").read_text())
    labels = {str(label): f"class {label}" for label in range(config["num_labels"])}
    kept = {name: config[name] for name in config if re.match(r"hidden|num_|inter|max_pos|layer_norm", name)}
    write_config(output, kept | {name: config[name] for name in FIELDS}, id2label=labels)
    tensors = read(folder / "pytorch_model.bin")
    # buffers of older releases that hold no weights are left out
    write_weights(output, {k: v for k, v in tensors.items() if not k.endswith("position_ids")})
    smiles_tokenizer((folder / "vocab.txt").read_text().split("\n")).save(str(output / "tokenizer.json"))
    (output / "reactions.txt").write_text("\n".join(reactions(REACTIONS)) + "\n")


SOURCE = Source("c5c1e818add6f345", convert)
