"""The weights of a folder, whatever its files -> float64 tensors, each checked: present, a float type.

`model.safetensors`, the same in shards, or `pytorch_model.bin`, in this order (`checkpoint`).
Names of tensors are known before one is read; a family says what its are called in files
(`models.shared.config`). Shapes and finite values are checked by `texts.embedding`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tacita.checkpoint.formats import SafetensorsFile, Shards, TorchFile
from tacita.checkpoint.gguf import gguf_of
from tacita.checkpoint.vocabulary import for_size
from tacita.errors import CheckpointError
from tacita.models.shared.config import Names
from tacita.texts.embedding import POSITIONS, Array, decode


class Stored(Protocol):
    """A file of tensors, or several."""

    @property
    def where(self) -> str:
        """Names the file in error messages."""

    @property
    def names(self) -> Collection[str]:
        """Lists the names of the tensors, from the file's head alone."""

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Reads tensors: name -> dtype, shape, data (`texts.embedding.decode`). Raises CheckpointError."""


def open_weights(folder: Path) -> Stored:
    """Opens the folder's weights, or a GGUF file's. Errors: CheckpointError (absent, too large, damaged)."""
    if file := gguf_of(folder):
        return file
    whole = folder / "model.safetensors"
    for path in (folder / "model.safetensors.index.json", folder / "pytorch_model.bin.index.json"):
        if path.is_file() and not whole.is_file():
            return Shards(path)
    path = folder / "pytorch_model.bin"
    if path.is_file() and not whole.is_file():
        return TorchFile(path)
    return SafetensorsFile(whole)


def read_tensors(
    stored: Stored, names: Names, shapes: Mapping[str, tuple[int, ...]], *, longer: bool = False
) -> dict[str, Array]:
    """The tensors named in `shapes`, float64. Extra tensors are ignored. longer: whether the table of
    positions may have more rows than that, which are left out. Errors: CheckpointError naming the tensor.
    """
    spellings = {name: names.find(name, stored.names) for name in shapes}
    if missing := [name for name, spelled in spellings.items() if spelled is None]:
        raise CheckpointError(
            f"{stored.where}: {len(missing)} tensors missing, first {missing[0]}",
            hint=_missing_hint(stored.names),
        )
    spelled = {name: str(theirs) for name, theirs in spellings.items()}
    raw = stored.read(spelled.values())
    decoded = {theirs: decode(stored.where, name, raw[theirs]) for name, theirs in spelled.items()}
    tensors = {name: decoded[theirs] for name, theirs in spelled.items()}
    if names.square_after is not None and POSITIONS in tensors:
        tensors[POSITIONS] = for_size(tensors[POSITIONS], names.square_after, shapes[POSITIONS][0])
    for name in names.flat:
        if name in tensors and tensors[name].size == np.prod(shapes[name]):
            tensors[name] = tensors[name].reshape(shapes[name])
    for name in names.transposed:
        if name in tensors and tensors[name].ndim == 2:
            tensors[name] = tensors[name].T
    if longer and POSITIONS in tensors and tensors[POSITIONS].ndim == 2:
        tensors[POSITIONS] = tensors[POSITIONS][: shapes[POSITIONS][0]]
    return tensors


def _missing_hint(names: Collection[str]) -> str:
    if not names:
        return "the file is empty"
    return f"the file holds {len(names)} tensors, such as {', '.join(sorted(names)[:2])}"
