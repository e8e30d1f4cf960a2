"""Files of requests and responses as tests write them, whatever a plan says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tacita.plans import envelope

Tensors = Mapping[str, Sequence[bytes]]


def write(
    path: Path, kind: envelope.Kind, plan: str, key: str, tensors: Mapping[str, Sequence[bytes]]
) -> None:
    """plan: its hash, or another."""
    lengths = {name: [len(ct) for ct in cts] for name, cts in tensors.items()}
    envelope.write(path, kind, plan, key, lengths, tensors)
