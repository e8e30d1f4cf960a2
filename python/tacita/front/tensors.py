"""Bytes of a safetensors file <-> float64 tensors, each checked: of the right shape, a float type, finite.

Reads with the safetensors library (header caps, offsets, overlaps are its checks), widens fp16, bf16, fp32
exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.errors import CheckpointError

Array = NDArray[np.float64]
Raw = Mapping[str, Mapping[str, Any]]  # name -> dtype, shape, data

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
NARROWEST = ("<f2", "<f4", "<f8")


def parse_raw(data: bytes, where: str) -> Raw:
    """All tensors as raw bytes with dtype and shape. Errors: CheckpointError (truncated, damaged)."""
    from safetensors import SafetensorError, deserialize

    try:
        return dict(deserialize(data))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise CheckpointError(
            f"{where}: not a safetensors file ({error})", hint="truncated download?"
        ) from None


def to_bytes(tensors: Mapping[str, Array]) -> bytes:
    """A safetensors file of these tensors, each in the fewest bytes that keep it exactly."""
    from safetensors.numpy import save

    return bytes(save({name: np.ascontiguousarray(narrowest(tensor)) for name, tensor in tensors.items()}))


def narrowest(tensor: Array) -> NDArray[np.floating]:
    """In the fewest bytes an element that keep its numbers exactly."""
    with np.errstate(over="ignore"):
        kept = (tensor.astype(kind) for kind in NARROWEST)
        return next(narrow for narrow in kept if np.array_equal(narrow.astype(np.float64), tensor))


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
            raise CheckpointError(
                f"{where}: tensor {name} holds NaN or infinity", hint="training diverged, or damage"
            )


def decode(where: str, name: str, entry: Mapping[str, Any]) -> Array:
    """A float tensor of any width, exactly, as float64. Errors: CheckpointError."""
    dtype, data = str(entry["dtype"]), entry["data"]
    if dtype == "BF16":  # the upper half of a float32
        values = (np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    elif dtype in TYPES:
        values = np.frombuffer(data, dtype=TYPES[dtype])
    else:
        raise CheckpointError(
            f"{where}: tensor {name} has type {dtype}",
            hint=f"supported: {', '.join(TYPES)}, BF16; export as float32",
        )
    with np.errstate(invalid="ignore"):  # of a signalling NaN, which `check_tensors` refuses
        return values.astype(np.float64).reshape(tuple(entry["shape"]))
