"""The head of a GGUF file: what it says of the model, and where its tensors lie. No tensor is read.

    magic "GGUF", version, number of tensors, number of fields          little-endian, u32 u32 u64 u64
    field: name, type, value                                            an array has a type and a length
    tensor: name, number of sizes, sizes (innermost first), type, offset behind the padded head

Every length is a stranger's: it is compared with a cap and with what is left of the file before it is used.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.errors import CheckpointError
from tacita.extras import how_to_install
from tacita.models.fields import MAX_WEIGHT_BYTES, Fields, check_size, content
from tacita.texts.embedding import MAX_VOCAB, Tensor

MAGIC, VERSIONS = b"GGUF", (2, 3)
MOST_FIELDS, MOST_TENSORS, MOST_SIZES, MOST_TEXT = 1 << 10, 1 << 13, 4, 1 << 20
STRING, ARRAY = 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
ALIGNMENT = "general.alignment"


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor stands. shape: outermost first. kind: ggml's number of its type. offset: bytes from the
    file's beginning."""

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True)
class Header:
    """What the head of a file says. fields: what the file says, by its names. tensors: by the file's
    names."""

    path: Path
    fields: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]


def read_header(path: Path) -> Header:
    """Reads the head of a file. Errors: CheckpointError (absent, no GGUF, truncated, a length over its cap, a
    name twice)."""
    check_size(path, MAX_WEIGHT_BYTES)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _Reader(path, data).header()
        except (struct.error, UnicodeDecodeError, KeyError) as error:
            raise CheckpointError(f"{path}: not a GGUF file ({error!s:.80})", hint="truncated?") from None


class _Reader:
    """A place in the bytes, which moves forward."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._at = path, data, 0

    def header(self) -> Header:
        """Parses the head, from the first byte of the file."""
        if self._data[:4] != MAGIC:
            raise self._error("its first bytes", self._data[:4])
        self._at = 4
        if (version := self._number("I")) not in VERSIONS:
            raise self._error("version", version)
        tensors, fields = self._read_count(MOST_TENSORS, "tensors"), self._read_count(MOST_FIELDS, "fields")
        pairs = [(self._text(), self._value(self._number("I"))) for _ in range(fields)]
        values = self._unique("field", pairs)
        described = [self._tensor() for _ in range(tensors)]
        start = self._start(values)
        placed = [(name, TensorInfo(t.shape, t.kind, start + t.offset)) for name, t in described]
        return Header(self._path, values, self._unique("tensor", placed))

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._text()
        if kind != ARRAY:
            return self._number(SCALARS[kind])
        inner, count = self._number("I"), self._read_count(MAX_VOCAB, "elements")
        if inner == STRING:
            return [self._text() for _ in range(count)]
        scalars = struct.Struct(f"<{count}{SCALARS[inner]}")
        return list(scalars.unpack(self._bytes(scalars.size)))

    def _tensor(self) -> tuple[str, TensorInfo]:
        """Parses a tensor's name and description, whose offset counts from the end of the head."""
        name, count = self._text(), self._number("I")
        if not 1 <= count <= MOST_SIZES:
            raise self._error(f"sizes of {name:.80}", count)
        sizes = tuple(self._number("Q") for _ in range(count))
        return name, TensorInfo(sizes[::-1], self._number("I"), self._number("Q"))

    def _start(self, fields: Mapping[str, Any]) -> int:
        """Where tensors begin."""
        step = fields.get(ALIGNMENT, 32)
        if type(step) is not int or not 1 <= step <= 1 << 16 or step & (step - 1):
            raise self._error(ALIGNMENT, step)
        return -(-self._at // step) * step

    def _text(self) -> str:
        return self._bytes(self._read_count(MOST_TEXT, "bytes of a text")).decode()

    def _read_count(self, most: int, what: str) -> int:
        if (count := self._number("Q")) > most:
            raise self._error(f"number of {what}", count, f"at most {most}")
        return int(count)

    def _number(self, code: str) -> Any:
        one = struct.Struct("<" + code)
        return one.unpack(self._bytes(one.size))[0]

    def _bytes(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise self._error("its head", f"{len(self._data)} bytes", "truncated?")
        self._at += count
        return self._data[self._at - count : self._at]

    def _unique(self, what: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        named = dict(pairs)
        if len(named) < len(pairs):
            raise self._error(f"names of {what}s", f"{len(pairs) - len(named)} of them twice")
        return named

    def _error(self, what: str, value: object, hint: str = "another or a damaged file?") -> CheckpointError:
        return CheckpointError(f"{self._path}: {what} {value!r:.80}", hint=hint)


# The tensors of a GGUF file, dequantised, under Hugging Face's names.
#
# llama.cpp turns neighbouring features by an angle where Hugging Face turns those of a head's two halves, so
# its converter permutes the rows of LLaMA's queries and keys; here they come back to their places.

WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
OF_LAYER = {
    **{f"attn_{part}": f"self_attn.{part}_proj" for part in "qkv"},
    "attn_output": "self_attn.o_proj",
    **{f"ffn_{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")},
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
LAYER = re.compile(r"blk\.(\d{1,4})\.(\w+)\.(weight|bias)")
PERMUTED = ("llama",)  # architectures
TURNED = {"q_proj": "attention.head_count", "k_proj": "attention.head_count_kv"}


@dataclass(frozen=True)
class GgufFile:
    """A GGUF file as `weights.Stored`."""

    path: Path

    @property
    def names(self) -> Collection[str]:
        """Returns Hugging Face's names of the tensors."""
        return self._stored.keys()

    @cached_property
    def header(self) -> Header:
        """What the file says."""
        return read_header(self.path)

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Reads or maps tensors, which are dequantised where they are used, in single precision."""
        data = content(self.path)
        return {name: {"tensor": self._tensor(name, data)} for name in names}

    @cached_property
    def _stored(self) -> Mapping[str, str]:
        """Maps Hugging Face's names to the file's. Raises CheckpointError for a tensor that no family has."""
        return {self._translate(name): name for name in self.header.tensors}

    def _translate(self, name: str) -> str:
        stem, _, kind = name.rpartition(".")
        if stem in WHOLE and kind == "weight":
            return f"{WHOLE[stem]}.weight"
        match = LAYER.fullmatch(name)
        if not match or match[2] not in OF_LAYER:
            raise CheckpointError(f"{self.path}: tensor {name!r:.80}", hint="no family that is read has it")
        return f"model.layers.{int(match[1])}.{OF_LAYER[match[2]]}.{match[3]}"

    def _tensor(self, name: str, data: memoryview) -> Tensor | NDArray[np.float64]:
        """Raises CheckpointError for a type that the library cannot, for a size that is no multiple of its
        blocks, and for bytes beyond the file's."""
        gguf, info = library(), self.header.tensors[self._stored[name]]
        try:
            kind = gguf.GGMLQuantizationType(info.kind)
            block, size = gguf.GGML_QUANT_SIZES[kind]
        except (ValueError, KeyError):
            raise self._error(name, info, "a type that is not known") from None
        count = prod(info.shape)
        stop = info.offset + count // block * size
        if count == 0 or info.shape[-1] % block or stop > len(data):
            raise self._error(name, info, f"{len(data)} bytes in the file")
        stored = np.frombuffer(data[info.offset : stop], np.uint8).reshape(*info.shape[:-1], -1)

        def widen(rows: NDArray[np.uint8]) -> NDArray[np.float64]:
            with np.errstate(all="ignore"):  # what is not finite is refused with the other checks
                return np.asarray(gguf.quants.dequantize(rows, kind), np.float32).astype(np.float64)

        try:
            with np.errstate(all="ignore"):
                gguf.quants.dequantize(np.zeros((1, size), np.uint8), kind)
        except NotImplementedError:
            raise self._error(name, info, f"{kind.name} is not dequantised by the library") from None
        order = self._order(name, info.shape)
        if len(info.shape) == 1:
            return widen(stored)[... if order is None else order]
        return Tensor(stored, info.shape, widen, order=order)

    def _order(self, name: str, shape: tuple[int, ...]) -> NDArray[np.int64] | None:
        """Returns which of the file's rows are those of each head's two halves, whose neighbours the file has
        in pairs; None for rows that are in their places."""
        arch, part = self.header.fields.get("general.architecture"), name.split(".")[-2]
        if arch not in PERMUTED or part not in TURNED:
            return None
        fields, rows = self.header.fields, shape[0]
        heads = fields.get(f"{arch}.{TURNED[part]}", fields.get(f"{arch}.{TURNED['q_proj']}"))
        if type(heads) is not int or heads < 1 or rows % (2 * heads):
            raise CheckpointError(f"{self.path}: {name} of {rows} rows, {heads!r:.20} heads", hint="damaged?")
        pairs = np.arange(rows, dtype=np.int64).reshape(heads, rows // heads // 2, 2)
        return np.asarray(pairs.swapaxes(1, 2).reshape(rows))

    def _error(self, name: str, info: TensorInfo, why: str) -> CheckpointError:
        tensor = f"{self.path}: tensor {name} of type {info.kind} and shape {info.shape} at {info.offset}"
        return CheckpointError(f"{tensor}: {why}", hint="another or a damaged file?")


def library() -> Any:
    """The package that knows the quantised types. Raises CheckpointError where it is not installed."""
    try:
        import gguf
    except ImportError:
        hint = how_to_install("gguf")
        raise CheckpointError("gguf: the package gguf is not installed", hint=hint) from None
    return gguf


# Where a GGUF file is: named itself, or the only one of a folder without config.json.

ENDING = ".gguf"


def gguf_of(path: Path) -> GgufFile | None:
    """None for a folder of another kind. Raises CheckpointError for one with several such files."""
    if path.suffix == ENDING and path.is_file():
        return GgufFile(path)
    if not path.is_dir() or (path / "config.json").exists():
        return None
    files = sorted(path.glob(f"*{ENDING}"))
    if len(files) > 1:
        raise CheckpointError(f"{path}: {len(files)} GGUF files", hint="name one of them")
    return GgufFile(files[0]) if files else None


# What a GGUF file says of its model -> the fields that config.json of the same model holds, which the family
# then checks (`models.decoders`). A field of the architecture that is not known here is refused.

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
NAMES = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.key_length": "head_dim",
    "attention.value_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "rope.dimension_count": "head_dim",
    "vocab_size": "vocab_size",
}
UNSCALED = {"rope.scaling.type": "none"}  # the only value that changes nothing
TOKENS = "tokenizer.ggml.tokens"
ENDS = tuple(f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom"))  # of texts, turns


def fields_of(file: GgufFile) -> Fields:
    """Translates the file's fields to those of a config.json. Errors: CheckpointError naming the file and the
    field."""
    header, where = file.header.fields, file.path
    arch = header.get("general.architecture")
    if not isinstance(arch, str) or arch not in ARCHITECTURES:
        raise _error(where, "general.architecture", arch, ", ".join(ARCHITECTURES))
    config: dict[str, Any] = {
        "architectures": [ARCHITECTURES[arch]],
        "model_type": arch,
        "hidden_act": "silu",
    }
    for field, value in header.items():
        own, _, name = field.partition(".")
        if own != arch or (name in UNSCALED and value == UNSCALED[name]):
            continue
        theirs = NAMES.get(name, "")
        if not theirs or config.get(theirs, value) != value:
            raise _error(where, field, value, f"read are {', '.join(NAMES)}")
        config[theirs] = value
    if "rms_norm_eps" not in config:
        raise _error(
            where, f"{arch}.attention.layer_norm_rms_epsilon", None, "a number, which files must have"
        )
    words = header.get(TOKENS)
    config.setdefault("vocab_size", len(words) if isinstance(words, list) else None)
    ends = [header[name] for name in ENDS if name in header]
    once = [end for i, end in enumerate(ends) if end not in ends[:i]]
    config |= {"tie_word_embeddings": "lm_head.weight" not in file.names, "eos_token_id": once}
    config["attention_bias"] = arch == "llama" and "model.layers.0.self_attn.q_proj.bias" in file.names
    config["use_sliding_window"] = "sliding_window" in config
    return Fields(where, config)


def _error(path: Path, field: str, value: object, supported: str) -> CheckpointError:
    return CheckpointError(f"{path}: {field} is {value!r:.80}", hint=f"supported: {supported}")
