"""The prompt-injection classifier of metatronnanoguard 0.1.0 (PyPI, MIT) -> a folder for `--model`.

    pip download --no-deps metatronnanoguard==0.1.0
    python -m bench convert --wheel metatronnanoguard-0.1.0-py3-none-any.whl --output DIR

What changes on the way, all of it exact: the rows of the word table are normalised, as the model does first;
the halves of the features of queries and keys change places, because the original turns the other way; the
byte pairs of a pickled tiktoken encoding become a `tokenizer.json` that begins every text with BOS. Nothing
of the wheel is executed: the weights are read by the product's reader, the encoding by an unpickler that
knows one name, which it makes a plain dictionary.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.processors import TemplateProcessing

from bench.models.folder import Source, write_config, write_weights
from tacita.checkpoint.weights import TorchFile
from tacita.texts.embedding import decode

Array = NDArray[np.float64]
SMALLEST_RMS = 2.0**-23
SIZES = {"n_layer": 4, "n_head": 4, "n_kv_head": 4, "n_embd": 512, "vocab_size": 8192, "sequence_len": 512}
LABELS = {"0": "safe", "1": "injection"}
BEGIN, LAMBDAS = "<|reserved_0|>", ("resid_lambdas", "x0_lambdas")
ENCODING = ("tiktoken.core", "Encoding")


@dataclass(frozen=True)
class Encoding:
    """pattern: of the pieces that are encoded apart. ranks: byte strings in the order in which they were
    merged, the single bytes first. special: tokens outside the pieces."""

    pattern: str
    ranks: Mapping[bytes, int]
    special: Mapping[str, int]


def convert(wheel: Path, output: Path) -> None:
    """Converts the unpacked wheel."""
    assets = wheel / "nanoguard" / "assets"
    tensors = weights(assets / "model.pt")
    write_model(output, SIZES, tensors)
    tokenizer(read_encoding((assets / "tokenizer.pkl").read_bytes())).save(str(output / "tokenizer.json"))


def weights(path: Path) -> dict[str, Array]:
    """Reads them by the original's names."""
    stored = TorchFile(path)
    return {name: decode(str(stored.path), name, e) for name, e in stored.read(stored.names).items()}


def write_model(output: Path, config: Mapping[str, Any], tensors: Mapping[str, Array]) -> None:
    """config.json and model.safetensors of the original's weights."""
    kept = {name: tensor for name, tensor in tensors.items() if name not in LAMBDAS}
    table = kept["transformer.wte.weight"]
    spread = np.sqrt((table**2).mean(axis=1, keepdims=True) + SMALLEST_RMS)
    kept["transformer.wte.weight"] = table / spread
    for name in kept:
        if name.endswith(("attn.c_q.weight", "attn.c_k.weight")):
            kept[name] = swapped(kept[name], config["n_head"])
    numbers = {name: [float(value) for value in tensors[name]] for name in LAMBDAS}
    stated = {
        "architectures": ["NanoGuardForSequenceClassification"],
        "model_type": "nanoguard",
        "id2label": LABELS,
        "normed_embedding": True,
    }
    write_config(output, {**stated, **config, **numbers})
    write_weights(output, kept)


def swapped(weight: Array, heads: int) -> Array:
    """(heads * d, inputs) with the two halves of every head in the other order."""
    halves = weight.reshape(heads, 2, -1, weight.shape[1])
    return np.ascontiguousarray(halves[:, ::-1].reshape(weight.shape))


class _Plain(dict[str, Any]):
    """What stands for the one class: its attributes, as the pickle gives them."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.update(state)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type[_Plain]:
        """Makes nothing of every other name."""
        if (module, name) != ENCODING:
            raise pickle.UnpicklingError(f"the name {module}.{name}; only {'.'.join(ENCODING)} is read")
        return _Plain


def read_encoding(data: bytes) -> Encoding:
    """Reads a pickle of tiktoken's class. Raises UnpicklingError for any other, ValueError for its data."""
    found = _Unpickler(io.BytesIO(data)).load()
    wanted = {"pat_str": str, "mergeable_ranks": dict, "special_tokens": dict}
    if not isinstance(found, _Plain) or any(type(found.get(k)) is not kind for k, kind in wanted.items()):
        raise ValueError("the pickle holds no encoding with pattern, ranks and special tokens")
    ranks, special = found["mergeable_ranks"], found["special_tokens"]
    if not all(type(piece) is bytes for piece in ranks) or set(ranks.values()) != set(range(len(ranks))):
        raise ValueError("the ranks are not those of byte strings from 0 on")
    return Encoding(found["pat_str"], ranks, special)


def tokenizer(encoding: Encoding) -> Tokenizer:
    """Byte pairs in the format of `tokenizers`, BOS before every text."""
    spelled = spelling()
    names = {piece: "".join(spelled[byte] for byte in piece) for piece in encoding.ranks}
    vocabulary = {names[piece]: rank for piece, rank in encoding.ranks.items()}
    merges = [(names[first], names[second]) for first, second in merged_pairs(encoding.ranks)]
    found = Tokenizer(BPE(vocabulary, merges))
    found.pre_tokenizer = Sequence(
        [Split(Regex(encoding.pattern), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    found.decoder = ByteDecoder()
    by_id = sorted(encoding.special, key=lambda name: encoding.special[name])
    found.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in by_id])
    if any(found.token_to_id(name) != number for name, number in encoding.special.items()):
        raise ValueError("special tokens do not follow the ranks")
    found.encode_special_tokens = True  # one that stands in a text is text
    begin = encoding.special[BEGIN]
    found.post_processor = TemplateProcessing(single=f"{BEGIN} $A", special_tokens=[(BEGIN, begin)])
    return found


def spelling() -> list[str]:
    """The character that stands for each byte: itself where it can be seen, else one from 256 on."""
    seen = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in seen else chr(next(hidden)) for byte in range(256)]


def merged_pairs(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """The two pieces that each longer piece was made of: those that the pieces before it leave of its
    bytes."""
    pairs = []
    for piece, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(piece) > 1:
            parts = byte_pairs(piece, ranks, below=rank)
            if len(parts) != 2:
                raise ValueError(f"piece {rank} is made of {len(parts)} earlier ones")
            pairs.append((parts[0], parts[1]))
    return pairs


def byte_pairs(text: bytes, ranks: Mapping[bytes, int], below: int = 1 << 62) -> list[bytes]:
    """Byte pair encoding as it is defined: again and again the neighbours whose union has the least rank,
    the first of them, become one."""
    parts = [text[i : i + 1] for i in range(len(text))]
    while len(parts) > 1:
        unions = [ranks.get(a + b, below) for a, b in pairwise(parts)]
        if (least := min(unions)) >= below:
            break
        at = unions.index(least)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


SOURCE = Source("615c7a6836a2f3ec", convert)
