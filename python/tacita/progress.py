"""Tells how far a long operation is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """A report before each stage and once at the end. index: number of finished stages. seconds: spent so
    far. left: predicted seconds."""

    stage: str
    index: int
    total: int
    seconds: float
    left: float
