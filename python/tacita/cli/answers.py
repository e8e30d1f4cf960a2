"""How an answer looks on screen: a label and numbers, or what is worth knowing of an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot

from tacita.cli.console import shown

FEW = 4  # numbers of an answer that a line has room for


def label_of(label: str | None, values: Sequence[float]) -> str:
    """The label, escaped; of a model without classifier dimension and norm of its vector."""
    return f"{len(values)} numbers, norm {hypot(*values):.3f}" if label is None else shown(label)


def numbers(values: Sequence[float], most: int = FEW) -> str:
    """The first values, signed, to three decimals."""
    first = " ".join(f"{value:+.3f}" for value in values[:most])
    return first + (" ..." if len(values) > most else "")
