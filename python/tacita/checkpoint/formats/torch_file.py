"""`pytorch_model.bin`, as torch 1.6 and later write it: a zip of a pickle and one file a storage.

The pickle is read by `formats.pickles`, which executes nothing. Entries must be stored, not compressed, so
that no small file becomes a large one.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacita.checkpoint.files import check_size
from tacita.checkpoint.formats.pickles import Described, described
from tacita.checkpoint.formats.safetensors_file import MAX_WEIGHT_BYTES
from tacita.errors import CheckpointError

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
    """See `weights.Stored`."""

    path: Path

    @property
    def where(self) -> str:
        """For errors."""
        return str(self.path)

    @property
    def names(self) -> Collection[str]:
        """From the pickle alone. Raises CheckpointError."""
        return self._tensors.keys()

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """See the contract. Tensors that share a storage are read once each."""
        try:
            with zipfile.ZipFile(self.path) as file:
                return {name: self._entry(file, name) for name in names}
        except DAMAGE as error:
            raise self._damaged(f"{error!s:.80}") from None

    @cached_property
    def _tensors(self) -> Mapping[str, Described]:
        check_size(self.path, MAX_WEIGHT_BYTES)
        try:
            with zipfile.ZipFile(self.path) as file:
                data = self._content(file, "data.pkl", MAX_PICKLE_BYTES)
        except DAMAGE as error:
            raise self._damaged(f"{error!s:.80}") from None
        return described(data, str(self.path))

    def _entry(self, file: zipfile.ZipFile, name: str) -> Mapping[str, Any]:
        tensor = self._tensors[name]
        size = ITEMS[tensor.storage.dtype]
        data = self._content(file, f"data/{tensor.storage.key}", MAX_WEIGHT_BYTES)
        if len(data) != size * tensor.storage.count:
            raise self._damaged(f"tensor {name}: {len(data)} bytes for {tensor.storage.count} numbers")
        numbers = np.frombuffer(data, np.dtype(f"V{size}"))[tensor.offset :]
        strides = tuple(size * step for step in tensor.strides)
        view = np.lib.stride_tricks.as_strided(numbers, tensor.shape, strides, writeable=False)
        return {"dtype": tensor.storage.dtype, "shape": tensor.shape, "data": view.tobytes()}

    def _content(self, file: zipfile.ZipFile, name: str, most: int) -> bytes:
        """Of an entry in the archive's one folder, checked before it is read."""
        found = [info for info in self._listed(file) if info.filename.partition("/")[2] == name]
        if len(found) != 1:
            raise self._damaged(f"{len(found)} entries {name!r:.40}")
        (info,) = found
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > most:
            raise self._damaged(f"entry {name!r:.40}: compressed, or of {info.file_size} bytes")
        return file.read(info)

    def _listed(self, file: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
        if len(infos := file.infolist()) > MOST_ENTRIES:
            raise self._damaged(f"{len(infos)} entries")
        return infos

    def _damaged(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: not a file of torch.save ({what})", hint=HINT)
