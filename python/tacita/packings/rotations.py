"""Sums and copies by rotations, in log2 of their number, and many rotations with few keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tacita.slots.base import Backend, Ct


def rotate_sum(be: Backend, ct: Ct, width: int, step: int = 1) -> Ct:
    """out[j] = sum of ct[j + step*k] for 0 <= k < width (a power of two): log2(width) rotations, no level."""
    k = width // 2
    while k >= 1:
        ct = be.add(ct, be.rotate(ct, step * k))
        k //= 2
    return ct


def spread(be: Backend, ct: Ct, width: int, step: int = 1) -> Ct:
    """Repeats slots that have zeros behind them: out[j] = sum of ct[j - step*k], 0 <= k < width; no level."""
    return rotate_sum(be, ct, width, -step)


def rotate_range(be: Backend, ct: Ct, step: int, count: int) -> list[Ct]:
    """[rotate(ct, step*r) for r < count] with few keys: babies hoisted from anchors that are chained by one
    key.

    Keys: step*1 .. step*(b-1) and step*b, b about sqrt(count). Cost: count/b - 1 full and count*(1 - 1/b)
    hoisted.
    """
    return [turned for part in rotate_parts(be, ct, step, count) for turned in part]


def rotate_parts(be: Backend, ct: Ct, step: int, count: int) -> Iterator[list[Ct]]:
    """Those of `rotate_range`, about sqrt(count) at a time, for who needs no more of them at once."""
    radix = 1 << (max(1, int(np.sqrt(count))) - 1).bit_length()
    anchor = ct
    for start in range(0, count, radix):
        anchor = anchor if start == 0 else be.rotate(anchor, step * radix)
        yield be.rotate_many(anchor, [step * r for r in range(min(radix, count - start))])
