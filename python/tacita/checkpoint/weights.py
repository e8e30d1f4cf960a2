"""model.safetensors -> float64 tensors, each checked: present, of the right shape, a float type, finite.

Reads with the safetensors library (header caps, offsets, overlaps are its checks), widens fp16, bf16, fp32
exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.checkpoint.files import check_size
from tacita.errors import CheckpointError

Array = NDArray[np.float64]
Raw = Mapping[str, Mapping[str, Any]]  # name -> dtype, shape, data

MAX_WEIGHT_BYTES = 4 << 30  # BERT-large in fp32 is 1.3 GB
PREFIX = "bert."
OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def read_raw(path: Path) -> Raw:
    """All tensors as raw bytes with dtype and shape. Errors: CheckpointError (absent, too large, truncated,
    damaged).
    """
    from safetensors import SafetensorError, deserialize

    check_size(path, MAX_WEIGHT_BYTES)
    try:
        return dict(deserialize(path.read_bytes()))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise CheckpointError(f"{path}: not a safetensors file ({error})", hint="truncated download?") from None


def has_tensor(raw: Raw, name: str) -> bool:
    """Whether the file holds `name`, with or without the `bert.` prefix."""
    return _find(raw, name) is not None


def read_tensors(path: Path, raw: Raw, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """The tensors named in `shapes`, float64. Extra tensors are ignored. Errors: CheckpointError naming the
    tensor.
    """
    missing = [name for name in shapes if not has_tensor(raw, name)]
    if missing:
        raise CheckpointError(f"{path}: {len(missing)} tensors missing, first {missing[0]}", hint=_missing_hint(raw))
    return {name: _decode(path, name, raw[_find(raw, name) or name]) for name in shapes}


def check_tensors(where: str, tensors: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """CheckpointError unless every tensor of `shapes` is there, of that shape, floating and finite."""
    for name, shape in shapes.items():
        tensor = tensors.get(name)
        if tensor is None:
            raise CheckpointError(f"{where}: tensor {name} is missing", hint=f"expected shape {shape}")
        if tensor.shape != shape:
            raise CheckpointError(
                f"{where}: tensor {name} has shape {tensor.shape}, the configuration says {shape}",
                hint="config.json and model.safetensors belong to different models",
            )
        if not np.issubdtype(tensor.dtype, np.floating):
            raise CheckpointError(f"{where}: tensor {name} has type {tensor.dtype}", hint="export as float32")
        if not np.isfinite(tensor).all():
            raise CheckpointError(f"{where}: tensor {name} holds NaN or infinity", hint="training diverged, or damage")


def _find(raw: Raw, name: str) -> str | None:
    old = next((name.replace(new, old) for new, old in OLD_NAMES.items() if name.endswith(new)), name)
    spellings: Iterable[str] = (PREFIX + name, name, PREFIX + old, old)
    return next((spelling for spelling in spellings if spelling in raw), None)


def _decode(path: Path, name: str, entry: Mapping[str, Any]) -> Array:
    dtype, data = str(entry["dtype"]), entry["data"]
    if dtype == "BF16":  # the upper half of a float32
        values = (np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    elif dtype in TYPES:
        values = np.frombuffer(data, dtype=TYPES[dtype])
    else:
        raise CheckpointError(
            f"{path}: tensor {name} has type {dtype}", hint=f"supported: {', '.join(TYPES)}, BF16; export as float32"
        )
    return values.astype(np.float64).reshape(tuple(entry["shape"]))


def _missing_hint(raw: Raw) -> str:
    return f"the file holds {len(raw)} tensors, such as {', '.join(sorted(raw)[:2])}" if raw else "the file is empty"
