"""Which of DASHformer's sequences calibrate and which are measured: never the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tacita.errors import InputError

FIRST, LAST = 256, 456  # sequences 257 to 456 of the file calibrate

T = TypeVar("T")


def split(examples: Sequence[T]) -> tuple[list[T], list[T]]:
    """(measured, calibrating): the first 256 and those from the 457th on are measured. Raises InputError for
    fewer than 456."""
    if len(examples) < LAST:
        raise InputError(
            f"bench dashformer: {len(examples)} sequences, those from {FIRST + 1} to {LAST} calibrate",
            hint="use the whole sequences.tsv of evaluation/convert_dashformer.py",
        )
    return [*examples[:FIRST], *examples[LAST:]], list(examples[FIRST:LAST])
