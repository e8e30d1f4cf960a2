"""Tensors of a PyTorch weight file in its older format, without PyTorch and without running what a pickle
says.

The file is four pickles (magic, version, sizes of numbers, a dictionary of tensors), a fifth with the order
of the storages, then each storage: its length (int64) and its numbers (float32), little endian. Only the
three names that a dictionary of float32 tensors needs are known to the unpickler; any other is refused.
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
FLOAT = "torch.FloatStorage"


@dataclass(frozen=True)
class Described:
    """A tensor whose numbers come later. storage: its key. start, shape, strides: in numbers."""

    storage: str
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read(path: Path) -> dict[str, NDArray[np.float32]]:
    """All tensors by name. Raises ValueError for any other file, UnpicklingError for any other object."""
    with path.open("rb") as file:
        magic, protocol, _, tensors, order = (_Unpickler(file).load() for _ in range(5))
        if (magic, protocol) != (MAGIC, PROTOCOL):
            raise ValueError(f"{path}: not PyTorch's older format")
        storages = {key: _storage(file) for key in order}
    return {name: _tensor(one, storages[one.storage]) for name, one in tensors.items()}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = {
            "collections.OrderedDict": OrderedDict,
            "torch._utils._rebuild_tensor_v2": _described,
            FLOAT: FLOAT,
        }
        if (full := f"{module}.{name}") not in known:
            raise pickle.UnpicklingError(f"{full} has no place in a file of float32 tensors")
        return known[full]

    def persistent_load(self, pid: Any) -> str:
        kind, numbers, key = pid[:3]
        if (kind, numbers) != ("storage", FLOAT):
            raise pickle.UnpicklingError("a storage that is not of float32 numbers")
        return str(key)


def _described(storage: str, start: int, shape: Any, strides: Any, *_: Any) -> Described:
    return Described(storage, start, tuple(shape), tuple(strides))


def _storage(file: BinaryIO) -> NDArray[np.float32]:
    count = int(np.frombuffer(file.read(8), "<i8")[0])
    return np.frombuffer(file.read(4 * count), "<f4")


def _tensor(one: Described, storage: NDArray[np.float32]) -> NDArray[np.float32]:
    """Contiguous tensors only: weight files hold no others."""
    if one.strides != tuple(int(np.prod(one.shape[at + 1 :])) for at in range(len(one.shape))):
        raise ValueError(f"a tensor of shape {one.shape} with strides {one.strides}")
    size = int(np.prod(one.shape))
    return storage[one.start : one.start + size].reshape(one.shape).copy()
