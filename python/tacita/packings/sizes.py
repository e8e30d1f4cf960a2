"""What every packing shares: refusal of shapes with the reason, and powers of two."""

from __future__ import annotations

from tacita.errors import ShapeError


def ceil_power(n: int) -> int:
    """Smallest power of two >= n, n >= 1."""
    return 1 << (n - 1).bit_length()


def is_power(n: int) -> bool:
    """Whether n is a power of two."""
    return n > 0 and n & (n - 1) == 0


def refuse(packing: str, what: str, hint: str) -> ShapeError:
    """The error for a shape that a packing does not admit."""
    return ShapeError(f"{packing} packing does not admit {what}", hint=hint)
