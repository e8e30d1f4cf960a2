"""Files of a model's folder, capped and parsed before anyone looks inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tacita.errors import CheckpointError

MAX_JSON_BYTES = 1 << 20
NEEDED = "need config.json, model.safetensors, tokenizer.json (or older files)"
LFS = b"version https://git-lfs"  # how a pointer begins that git leaves where a large file shall be


def read_json(path: Path, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """A JSON object from a file of at most max_bytes. Errors: CheckpointError (absent, too large, not an
    object).
    """
    data = _parsed(path, max_bytes)
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: holds a {type(data).__name__}, not an object", hint="wrong file?")
    return data


def read_objects(path: Path, max_bytes: int = MAX_JSON_BYTES) -> list[dict[str, Any]]:
    """A JSON list of objects, likewise. Errors: CheckpointError."""
    data = _parsed(path, max_bytes)
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise CheckpointError(f"{path}: holds no list of objects", hint="wrong file?")
    return data


def check_size(path: Path, max_bytes: int) -> None:
    """CheckpointError unless `path` is a file of 1..max_bytes bytes, and no pointer of Git LFS."""
    if not path.is_file():
        onnx = next(iter(sorted(path.parent.glob("*.onnx"))), None)
        raise CheckpointError(
            f"{path}: no such file",
            hint=f"{NEEDED}; {onnx.name} is ONNX, which is not read" if onnx else NEEDED,
        )
    size = path.stat().st_size
    if not 0 < size <= max_bytes:
        raise CheckpointError(
            f"{path}: {size} bytes, allowed are 1..{max_bytes}", hint="empty or not a model's file"
        )
    with path.open("rb") as file:
        if file.read(len(LFS)) == LFS:
            raise CheckpointError(f"{path}: a pointer of Git LFS, not the file", hint="git lfs pull")


def _parsed(path: Path, max_bytes: int) -> Any:
    check_size(path, max_bytes)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: not JSON ({error})", hint="the file is damaged or truncated"
        ) from None
