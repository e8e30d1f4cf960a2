"""Trained models of chemical reactions, and reactions in SMILES as texts for them, one a line.

rxnfp (MIT; Schwaller et al., "Mapping the space of chemical reactions using attention-based neural networks",
2021) is a BERT of 12 layers of width 256 that tells 50 classes of reactions apart. rxnmapper (MIT; Schwaller
et al., "Extraction of organic chemistry grammar from unsupervised learning of chemical reactions", 2021) is
an ALBERT whose one layer of width 256 is used 12 times, trained to fill masked tokens of reactions. Some of
its heads of attention say which atom of a product was which atom before.

There is no data set of reactions in the package registries, so these are made of ten textbook transformations
and common building blocks ("educts>>product", for an amide "CC(=O)O.NCc1ccccc1>>CC(=O)NCc1ccccc1"). They are
what the models were trained on, but chemists did not write them down."""

from __future__ import annotations

import json
import random
import re
from itertools import cycle, islice
from pathlib import Path

from bench.models.folder import SMILES, Source, matching_tokenizer, write_config, write_weights
from bench.models.torch_pickle import read

ARYL = (
    *("c1ccccc1", "c1ccc(C)cc1", "c1ccc(OC)cc1", "c1ccc(F)cc1", "c1ccc(Cl)cc1", "c1cccnc1", "c1ccsc1"),
    *("c1ccc(C#N)cc1", "c1ccc(C(F)(F)F)cc1", "c1ccc2ccccc2c1", "c1ccoc1", "c1cnccn1"),
)
ALKYL = ("C", "CC", "CCC", "CCCC", "CC(C)C", "C1CCCCC1", "C1CCCC1", "C1CC1", "CCOC", "CCN(C)C")
AMINE = ("NCc1ccccc1", "NC1CCCCC1", "N1CCOCC1", "N1CCCCC1", "NCCC", "NCc1ccco1", "NCCOC", "N1CCN(C)CC1")

BLOCKS = {"acid": ARYL + ALKYL, "amine": AMINE, "ring": ARYL, "other": ARYL, "chain": ALKYL}
TEMPLATES = (
    "O=C(O){acid}.{amine}>>O=C({acid}){amine}",
    "O=C(Cl){acid}.{amine}>>O=C({acid}){amine}",
    "Br{ring}.OB(O){other}>>{ring}-{other}",  # Suzuki
    "COC(=O){acid}>>O=C(O){acid}",
    "O=C(O){acid}.O{chain}>>O=C(O{chain}){acid}",
    "CC(C)(C)OC(=O)N{chain}{ring}>>N{chain}{ring}",  # a protecting group off, and on
    "CC(C)(C)OC(=O)OC(=O)OC(C)(C)C.N{chain}{ring}>>CC(C)(C)OC(=O)N{chain}{ring}",
    "O=[N+]([O-]){ring}.[H][H]>>N{ring}",
    "O=C{ring}.[BH4-].[Na+]>>OC{ring}",
    "O{ring}.Br{chain}.O=C([O-])[O-].[K+].[K+]>>{chain}O{ring}",
)
TRIES = 200  # of the generator for each reaction


def reactions(count: int) -> list[str]:
    """So many different ones, all transformations in turn while they have others, of random blocks. Raises
    ValueError for more than there are, about a thousand."""
    r, found = random.Random(1), dict[str, None]()
    for template in islice(cycle(TEMPLATES), TRIES * count):
        if len(found) == count:
            return list(found)
        names = dict.fromkeys(re.findall(r"{(\w+)}", template))
        found.setdefault(template.format(**{name: r.choice(BLOCKS[name]) for name in names}))
    raise ValueError(f"{count} reactions: these building blocks make {len(found)}")


def masked_reactions(count: int) -> list[str]:
    """Returns `reactions`; in each one, an atom of the product is masked."""
    r = random.Random(1)
    return [_masked(reaction, r) for reaction in reactions(count)]


def _masked(reaction: str, r: random.Random) -> str:
    atoms = list(re.finditer(r"Br|Cl|[BCNOFSbcnos]", reaction))
    behind = [atom for atom in atoms if atom.start() > reaction.index(">>")]
    atom = r.choice(behind)
    return f"{reaction[: atom.start()]}[MASK]{reaction[atom.end() :]}"


REACTIONS = 1000
RXNFP_FOLDER = "rxnfp/models/transformers/bert_ft_10k_25s"
RXNFP_FIELDS = ("architectures", "model_type", "type_vocab_size", "vocab_size")


def convert_rxnfp(wheel: Path, output: Path) -> None:
    """The classifier with a tokenizer in one file, and reactions to classify."""
    folder = wheel / RXNFP_FOLDER
    config = json.loads((folder / "config.json").read_text())
    labels = {str(label): f"class {label}" for label in range(config["num_labels"])}
    kept = {name: config[name] for name in config if re.match(r"hidden|num_|inter|max_pos|layer_norm", name)}
    write_config(output, kept | {name: config[name] for name in RXNFP_FIELDS}, id2label=labels)
    tensors = read(folder / "pytorch_model.bin")
    # buffers of older releases that hold no weights are left out
    write_weights(output, {k: v for k, v in tensors.items() if not k.endswith("position_ids")})
    tokens = (folder / "vocab.txt").read_text().split("\n")
    matching_tokenizer(tokens, SMILES).save(str(output / "tokenizer.json"))
    (output / "reactions.txt").write_text("\n".join(reactions(REACTIONS)) + "\n")


RXNFP = Source("c5c1e818add6f345", convert_rxnfp)


RXNMAPPER_FOLDER = "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"
RXNMAPPER_FIELDS = (
    *("architectures", "model_type", "vocab_size", "type_vocab_size", "embedding_size", "hidden_size"),
    *("intermediate_size", "hidden_act", "layer_norm_eps", "max_position_embeddings", "num_hidden_layers"),
    *("num_attention_heads", "num_hidden_groups", "inner_group_num", "pad_token_id"),
)


def convert_rxnmapper(wheel: Path, output: Path) -> None:
    """The model of masked tokens, and reactions with a masked token each."""
    folder = wheel / RXNMAPPER_FOLDER
    config = json.loads((folder / "config.json").read_text())
    write_config(output, {name: config[name] for name in RXNMAPPER_FIELDS})
    write_weights(output, read(folder / "pytorch_model.bin"))
    tokens = (folder / "vocab.txt").read_text().split("\n")
    matching_tokenizer(tokens, SMILES).save(str(output / "tokenizer.json"))
    (output / "texts.txt").write_text("\n".join(masked_reactions(REACTIONS)) + "\n")


RXNMAPPER = Source("27876a4286881aaf", convert_rxnmapper)
