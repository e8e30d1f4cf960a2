"""Tensors of a PyTorch weight file in its older format, without PyTorch and without running what a pickle
says.

The file is four pickles (magic, version, sizes of numbers, a dictionary of tensors), a fifth with the order
of the storages, then each storage: its length (int64) and its numbers, little endian. Only the names that a
dictionary of float32 and float64 tensors needs are known to the unpickler, and the options of a command that
fairseq stores beside them, of which nothing is kept; any other is refused.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
STORAGES: dict[str, np.dtype[Any]] = {
    "torch.FloatStorage": np.dtype("<f4"),
    "torch.DoubleStorage": np.dtype("<f8"),
}


@dataclass(frozen=True)
class Described:
    """A tensor whose numbers come later. storage: its key. start, shape, strides: in numbers."""

    storage: str
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Options:
    """The options of a command, which are dropped."""

    def __setstate__(self, state: Any) -> None:
        pass


def read(path: Path, inside: str | None = None) -> dict[str, NDArray[np.float32]]:
    """All tensors by name; inside: of the dictionary with this name in the file's. Raises ValueError for any
    other file, UnpicklingError for any other object."""
    with path.open("rb") as file:
        readers = [_Unpickler(file) for _ in range(5)]
        magic, protocol, _, tensors, order = (reader.load() for reader in readers)
        if (magic, protocol) != (MAGIC, PROTOCOL):
            raise ValueError(f"{path}: not PyTorch's older format")
        storages = {key: _storage(file, readers[3].kinds[key]) for key in order}
    found = tensors if inside is None else tensors[inside]
    return {name: _tensor(one, storages[one.storage]) for name, one in found.items()}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.kinds: dict[str, np.dtype[Any]] = {}  # of the storages that were mentioned, by key

    def find_class(self, module: str, name: str) -> Any:
        known = {
            "collections.OrderedDict": OrderedDict,
            "torch._utils._rebuild_tensor_v2": _described,
            "argparse.Namespace": Options,
            **{kind: kind for kind in STORAGES},
        }
        if (full := f"{module}.{name}") not in known:
            raise pickle.UnpicklingError(f"{full} has no place in a file of tensors")
        return known[full]

    def persistent_load(self, pid: Any) -> str:
        kind, numbers, key = pid[:3]
        if kind != "storage" or numbers not in STORAGES:
            raise pickle.UnpicklingError("a storage that is not of float32 or float64 numbers")
        self.kinds[str(key)] = STORAGES[numbers]
        return str(key)


def _described(storage: str, start: int, shape: Any, strides: Any, *_: Any) -> Described:
    return Described(storage, start, tuple(shape), tuple(strides))


def _storage(file: BinaryIO, kind: np.dtype[Any]) -> NDArray[np.float32]:
    count = int(np.frombuffer(file.read(8), "<i8")[0])
    return np.frombuffer(file.read(kind.itemsize * count), kind).astype(np.float32)


def _tensor(one: Described, storage: NDArray[np.float32]) -> NDArray[np.float32]:
    """Contiguous tensors only: weight files hold no others."""
    if one.strides != tuple(int(np.prod(one.shape[at + 1 :])) for at in range(len(one.shape))):
        raise ValueError(f"a tensor of shape {one.shape} with strides {one.strides}")
    size = int(np.prod(one.shape))
    return storage[one.start : one.start + size].reshape(one.shape).copy()
