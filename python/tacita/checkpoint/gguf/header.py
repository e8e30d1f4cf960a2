"""The head of a GGUF file: what it says of the model, and where its tensors lie. No tensor is read.

    magic "GGUF", version, number of tensors, number of fields          little-endian, u32 u32 u64 u64
    field: name, type, value                                            an array has a type and a length
    tensor: name, number of sizes, sizes (innermost first), type, offset behind the padded head

Every length is a stranger's: it is compared with a cap and with what is left of the file before it is used.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacita.checkpoint.files import check_size
from tacita.checkpoint.formats.safetensors_file import MAX_WEIGHT_BYTES
from tacita.errors import CheckpointError
from tacita.front.limits import MAX_VOCAB

MAGIC, VERSIONS = b"GGUF", (2, 3)
MOST_FIELDS, MOST_TENSORS, MOST_SIZES, MOST_TEXT = 1 << 10, 1 << 13, 4, 1 << 20
STRING, ARRAY = 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
ALIGNMENT = "general.alignment"


@dataclass(frozen=True)
class TensorInfo:
    """shape: outermost first. kind: ggml's number of its type. offset: bytes from the file's beginning."""

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True)
class Header:
    """fields: what the file says, by its names. tensors: by the file's names."""

    path: Path
    fields: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]


def read_header(path: Path) -> Header:
    """Errors: CheckpointError (absent, no GGUF, truncated, a length over its cap, a name twice)."""
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
        """From the first byte."""
        if self._data[:4] != MAGIC:
            raise self._refused("its first bytes", self._data[:4])
        self._at = 4
        if (version := self._number("I")) not in VERSIONS:
            raise self._refused("version", version)
        tensors, fields = self._counted(MOST_TENSORS, "tensors"), self._counted(MOST_FIELDS, "fields")
        said = self._unique("field", [self._field() for _ in range(fields)])
        found = [self._tensor() for _ in range(tensors)]
        start = self._start(said)
        placed = [(name, TensorInfo(t.shape, t.kind, start + t.offset)) for name, t in found]
        return Header(self._path, said, self._unique("tensor", placed))

    def _field(self) -> tuple[str, Any]:
        return self._text(), self._value(self._number("I"))

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._text()
        if kind != ARRAY:
            return self._number(SCALARS[kind])
        inner, count = self._number("I"), self._counted(MAX_VOCAB, "elements")
        if inner == STRING:
            return [self._text() for _ in range(count)]
        scalars = struct.Struct(f"<{count}{SCALARS[inner]}")
        return list(scalars.unpack(self._bytes(scalars.size)))

    def _tensor(self) -> tuple[str, TensorInfo]:
        """With the offset behind the head."""
        name, count = self._text(), self._number("I")
        if not 1 <= count <= MOST_SIZES:
            raise self._refused(f"sizes of {name:.80}", count)
        sizes = tuple(self._number("Q") for _ in range(count))
        return name, TensorInfo(sizes[::-1], self._number("I"), self._number("Q"))

    def _start(self, fields: Mapping[str, Any]) -> int:
        """Where tensors begin."""
        step = fields.get(ALIGNMENT, 32)
        if type(step) is not int or not 1 <= step <= 1 << 16 or step & (step - 1):
            raise self._refused(ALIGNMENT, step)
        return -(-self._at // step) * step

    def _text(self) -> str:
        return self._bytes(self._counted(MOST_TEXT, "bytes of a text")).decode()

    def _counted(self, most: int, what: str) -> int:
        if (count := self._number("Q")) > most:
            raise self._refused(f"number of {what}", count, f"at most {most}")
        return int(count)

    def _number(self, code: str) -> Any:
        one = struct.Struct("<" + code)
        return one.unpack(self._bytes(one.size))[0]

    def _bytes(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise self._refused("its head", f"{len(self._data)} bytes", "truncated?")
        self._at += count
        return self._data[self._at - count : self._at]

    def _unique(self, what: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise self._refused(f"names of {what}s", f"{len(pairs) - len(found)} of them twice")
        return found

    def _refused(self, what: str, value: object, hint: str = "another or a damaged file?") -> CheckpointError:
        return CheckpointError(f"{self._path}: {what} {value!r:.80}", hint=hint)
