"""A safetensors file, whose head says the names of its tensors before one of them is read."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacita.checkpoint.pickles import Described, described
from tacita.errors import CheckpointError
from tacita.models.shared.fields import check_size, read_json
from tacita.texts.embedding import parse_raw

MAX_WEIGHT_BYTES = 4 << 30  # BERT-large in fp32 is 1.3 GB
MAX_HEAD_BYTES = 100 << 20  # the library's own limit


@dataclass(frozen=True)
class SafetensorsFile:
    """A safetensors file as `weights.Stored`."""

    path: Path

    @property
    def where(self) -> str:
        return str(self.path)

    @cached_property
    def names(self) -> Collection[str]:
        """Reads the tensors' names from the head. Raises CheckpointError (absent, too large, truncated,
        damaged)."""
        check_size(self.path, MAX_WEIGHT_BYTES)
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(MAX_HEAD_BYTES, self.path.stat().st_size - 8):
                raise self._damage_error(f"a head of {length} bytes")
            head = file.read(length)
        try:
            entries = json.loads(head)
        except (UnicodeDecodeError, ValueError, RecursionError) as error:
            raise self._damage_error(f"{error!s:.80}") from None
        if not isinstance(entries, dict):
            raise self._damage_error("its head is no object")
        return frozenset(entries) - {"__metadata__"}

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Reads the whole file; the library checks offsets, types and lengths."""
        check_size(self.path, MAX_WEIGHT_BYTES)
        raw = parse_raw(self.path.read_bytes(), str(self.path))
        return {name: raw[name] for name in names}

    def _damage_error(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: not a safetensors file ({what})", hint="truncated download?")


# `pytorch_model.bin`, as torch 1.6 and later write it: a zip of a pickle and one file a storage.
#
# The pickle is read by `formats.pickles`, which executes nothing. Entries must be stored, not compressed, so
# that no small file becomes a large one.

MAX_PICKLE_BYTES = 16 << 20
MOST_ENTRIES = 100_000
HINT = "save it again with torch.save of torch 1.6 or later, or convert it to model.safetensors"
ITEMS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "BOOL": 1, "U8": 1}
# what the library raises for archives that are damaged, encrypted or of kinds that it does not know
DAMAGE = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    struct.error,
)


@dataclass(frozen=True)
class TorchFile:
    """A file of `torch.save` as `weights.Stored`."""

    path: Path

    @property
    def where(self) -> str:
        return str(self.path)

    @property
    def names(self) -> Collection[str]:
        """Reads the tensors' names from the pickle alone. Raises CheckpointError."""
        return self._tensors.keys()

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Reads tensors one by one; a storage that several share is read once for each."""
        try:
            with zipfile.ZipFile(self.path) as file:
                return {name: self._entry(file, name) for name in names}
        except DAMAGE as error:
            raise self._damage_error(f"{error!s:.80}") from None

    @cached_property
    def _tensors(self) -> Mapping[str, Described]:
        check_size(self.path, MAX_WEIGHT_BYTES)
        try:
            with zipfile.ZipFile(self.path) as file:
                data = self._content(file, "data.pkl", MAX_PICKLE_BYTES)
        except DAMAGE as error:
            raise self._damage_error(f"{error!s:.80}") from None
        return described(data, str(self.path))

    def _entry(self, file: zipfile.ZipFile, name: str) -> Mapping[str, Any]:
        tensor = self._tensors[name]
        size = ITEMS[tensor.storage.dtype]
        data = self._content(file, f"data/{tensor.storage.key}", MAX_WEIGHT_BYTES)
        if len(data) != size * tensor.storage.count:
            raise self._damage_error(f"tensor {name}: {len(data)} bytes for {tensor.storage.count} numbers")
        numbers = np.frombuffer(data, np.dtype(f"V{size}"))[tensor.offset :]
        strides = tuple(size * step for step in tensor.strides)
        view = np.lib.stride_tricks.as_strided(numbers, tensor.shape, strides, writeable=False)
        return {"dtype": tensor.storage.dtype, "shape": tensor.shape, "data": view.tobytes()}

    def _content(self, file: zipfile.ZipFile, name: str, most: int) -> bytes:
        """Returns the bytes of an entry in the archive's one folder, checked before it is read."""
        matches = [info for info in self._list(file) if info.filename.partition("/")[2] == name]
        if len(matches) != 1:
            raise self._damage_error(f"{len(matches)} entries {name!r:.40}")
        (info,) = matches
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > most:
            raise self._damage_error(f"entry {name!r:.40}: compressed, or of {info.file_size} bytes")
        return file.read(info)

    def _list(self, file: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
        if len(infos := file.infolist()) > MOST_ENTRIES:
            raise self._damage_error(f"{len(infos)} entries")
        return infos

    def _damage_error(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: not a file of torch.save ({what})", hint=HINT)


# Weights in several files: an index says which file holds which tensor.

MAX_INDEX_BYTES = 16 << 20
MOST_SHARDS = 1000
KINDS: dict[str, type[SafetensorsFile] | type[TorchFile]] = {
    ".safetensors": SafetensorsFile,
    ".bin": TorchFile,
}


@dataclass(frozen=True)
class Shards:
    """Several files with an index, as `weights.Stored`. path: of the index."""

    path: Path

    @property
    def where(self) -> str:
        return str(self.path)

    @property
    def names(self) -> Collection[str]:
        """Returns the names that the index lists."""
        return self._files.keys()

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Reads each shard that holds a tensor that is asked for, once."""
        wanted = set(names)
        tensors: dict[str, Mapping[str, Any]] = {}
        for file in sorted({self._files[name] for name in wanted}):
            here = [name for name in wanted if self._files[name] == file]
            shard = KINDS[Path(file).suffix](self.path.parent / file)
            if absent := sorted(set(here) - set(shard.names)):
                raise CheckpointError(
                    f"{shard.where}: tensor {absent[0]} is missing", hint=f"{self.path.name} says it is there"
                )
            tensors |= shard.read(here)
        return tensors

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """Maps a tensor to its file. Raises CheckpointError for a name outside the folder, and for too many
        bytes."""
        listed = read_json(self.path, MAX_INDEX_BYTES).get("weight_map")
        if not isinstance(listed, dict) or not all(isinstance(file, str) for file in listed.values()):
            raise CheckpointError(f"{self.path}: no weight_map of names", hint="damaged or another file?")
        files = set(listed.values())
        if len(files) > MOST_SHARDS:
            raise CheckpointError(f"{self.path}: {len(files)} shards", hint=f"at most {MOST_SHARDS}")
        for file in files:
            self._require_inside(file)
        if (total := sum((self.path.parent / file).stat().st_size for file in files)) > MAX_WEIGHT_BYTES:
            raise CheckpointError(f"{self.path}: shards of {total} bytes", hint=f"at most {MAX_WEIGHT_BYTES}")
        return listed

    def _require_inside(self, file: str) -> None:
        """A plain name of a file that is there, of a known kind."""
        plain = file == Path(file).name and "\\" not in file and not file.startswith(".")
        if not plain or Path(file).suffix not in KINDS:
            raise CheckpointError(
                f"{self.path}: shard {file!r:.80} is no file of this folder",
                hint="such as model-00001-of-00002.safetensors",
            )
        if not (self.path.parent / file).is_file():
            raise CheckpointError(f"{self.path.parent / file}: no such file", hint="download all shards")
