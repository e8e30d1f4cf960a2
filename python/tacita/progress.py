"""How far a long operation is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Reported before each stage and once at the end. index counts finished stages; left: predicted
    seconds."""

    stage: str
    index: int
    total: int
    seconds: float
    left: float
