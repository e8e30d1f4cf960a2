"""Names for the arrays that circuits are built from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacita.errors import ShapeError

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
Diagonal = dict[tuple[int, int, int], Array]  # (output, input, rotation) -> vector


# What every packing shares: refusal of shapes with the reason, and powers of two.


def ceil_power(n: int) -> int:
    """Smallest power of two >= n, n >= 1."""
    return 1 << (n - 1).bit_length()


def is_power(n: int) -> bool:
    """Whether n is a power of two."""
    return n > 0 and n & (n - 1) == 0


def refuse(packing: str, what: str, hint: str) -> ShapeError:
    """The error for a shape that a packing does not admit."""
    return ShapeError(f"{packing} packing does not admit {what}", hint=hint)
