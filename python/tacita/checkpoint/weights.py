"""model.safetensors -> float64 tensors, each checked: present, of the right shape, a float type, finite.

Names are found with and without BERT's prefix, and by those of old files; the rest is in `front.tensors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tacita.checkpoint.files import check_size
from tacita.errors import CheckpointError
from tacita.front.tensors import Array, Raw, decode, parse_raw

MAX_WEIGHT_BYTES = 4 << 30  # BERT-large in fp32 is 1.3 GB
PREFIX = "bert."
OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


def read_raw(path: Path) -> Raw:
    """All tensors as raw bytes with dtype and shape. Errors: CheckpointError (absent, too large, truncated,
    damaged).
    """
    check_size(path, MAX_WEIGHT_BYTES)
    return parse_raw(path.read_bytes(), str(path))


def has_tensor(raw: Raw, name: str) -> bool:
    """Whether the file holds `name`, with or without the `bert.` prefix."""
    return _find(raw, name) is not None


def read_tensors(path: Path, raw: Raw, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """The tensors named in `shapes`, float64. Extra tensors are ignored. Errors: CheckpointError naming the
    tensor.
    """
    missing = [name for name in shapes if not has_tensor(raw, name)]
    if missing:
        raise CheckpointError(
            f"{path}: {len(missing)} tensors missing, first {missing[0]}", hint=_missing_hint(raw)
        )
    return {name: decode(str(path), name, raw[_find(raw, name) or name]) for name in shapes}


def _find(raw: Raw, name: str) -> str | None:
    old = next((name.replace(new, old) for new, old in OLD_NAMES.items() if name.endswith(new)), name)
    spellings: Iterable[str] = (PREFIX + name, name, PREFIX + old, old)
    return next((spelling for spelling in spellings if spelling in raw), None)


def _missing_hint(raw: Raw) -> str:
    return (
        f"the file holds {len(raw)} tensors, such as {', '.join(sorted(raw)[:2])}"
        if raw
        else "the file is empty"
    )
