"""The tensors of a GGUF file, dequantised, under Hugging Face's names.

llama.cpp turns neighbouring features by an angle where Hugging Face turns those of a head's two halves, so
its converter permutes the rows of LLaMA's queries and keys; here they come back to their places.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.checkpoint.gguf.header import Header, TensorInfo, read_header
from tacita.errors import CheckpointError
from tacita.extras import how_to_install

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
INSTALL = how_to_install("gguf")


@dataclass(frozen=True)
class GgufFile:
    """See `weights.Stored`."""

    path: Path

    @property
    def where(self) -> str:
        """For errors."""
        return str(self.path)

    @property
    def names(self) -> Collection[str]:
        """Hugging Face's."""
        return self._stored.keys()

    @cached_property
    def header(self) -> Header:
        """What the file says."""
        return read_header(self.path)

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """See the contract; in single precision."""
        data = np.memmap(self.path, np.uint8, "r")
        return {name: self._entry(name, data) for name in names}

    @cached_property
    def _stored(self) -> Mapping[str, str]:
        """Hugging Face's name -> the file's. Raises CheckpointError for a tensor that the families lack."""
        return {self._spelled(name): name for name in self.header.tensors}

    def _spelled(self, name: str) -> str:
        stem, _, kind = name.rpartition(".")
        if stem in WHOLE and kind == "weight":
            return f"{WHOLE[stem]}.weight"
        found = LAYER.fullmatch(name)
        if not found or found[2] not in OF_LAYER:
            raise CheckpointError(f"{self.path}: tensor {name!r:.80}", hint="no family that is read has it")
        return f"model.layers.{int(found[1])}.{OF_LAYER[found[2]]}.{found[3]}"

    def _entry(self, name: str, data: NDArray[np.uint8]) -> Mapping[str, Any]:
        info = self.header.tensors[self._stored[name]]
        values = self._dequantised(name, info, data)
        arch, part = self.header.fields.get("general.architecture"), name.split(".")[-2]
        if arch in PERMUTED and part in TURNED:
            fields = self.header.fields
            heads = fields.get(f"{arch}.{TURNED[part]}", fields.get(f"{arch}.{TURNED['q_proj']}"))
            values = self._halved(name, values, heads)
        return {"dtype": "F32", "shape": values.shape, "data": np.ascontiguousarray(values).tobytes()}

    def _dequantised(self, name: str, info: TensorInfo, data: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Raises CheckpointError for a type that the library cannot, for a size that is no multiple of its
        blocks, and for bytes beyond the file's."""
        gguf = library()
        try:
            kind = gguf.GGMLQuantizationType(info.kind)
            block, size = gguf.GGML_QUANT_SIZES[kind]
        except (ValueError, KeyError):
            raise self._refused(name, info, "a type that is not known") from None
        count = prod(info.shape)
        stop = info.offset + count // block * size
        if count == 0 or info.shape[-1] % block or stop > len(data):
            raise self._refused(name, info, f"{len(data)} bytes in the file")
        stored = data[info.offset : stop].reshape(*info.shape[:-1], -1)
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused with the other checks
                return np.asarray(gguf.quants.dequantize(stored, kind), np.float32).reshape(info.shape)
        except NotImplementedError:
            raise self._refused(name, info, f"{kind.name} is not dequantised by the library") from None

    def _halved(self, name: str, values: NDArray[np.float32], heads: object) -> NDArray[np.float32]:
        """Pairs of neighbouring rows of each head, apart in its halves."""
        rows = len(values)
        if type(heads) is not int or heads < 1 or rows % (2 * heads):
            raise CheckpointError(f"{self.path}: {name} of {rows} rows, {heads!r:.20} heads", hint="damaged?")
        pairs = values.reshape(heads, rows // heads // 2, 2, *values.shape[1:])
        return np.asarray(pairs.swapaxes(1, 2).reshape(values.shape))

    def _refused(self, name: str, info: TensorInfo, why: str) -> CheckpointError:
        said = f"{self.path}: tensor {name} of type {info.kind} and shape {info.shape} at {info.offset}"
        return CheckpointError(f"{said}: {why}", hint="another or a damaged file?")


def library() -> Any:
    """The package that knows the quantised types. Raises CheckpointError where it is not installed."""
    try:
        import gguf
    except ImportError:
        raise CheckpointError("gguf: the package gguf is not installed", hint=INSTALL) from None
    return gguf
