"""A table of positions that was learned for images of another size, as DINOv2's (arXiv 2304.07193): trained
on 518 pixels, used on 224."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BEND = -0.75  # of the cubic between two points, as torch's and ONNX's `cubic_coeff_a`


def for_size(table: Array, first: int, tokens: int) -> Array:
    """Positions (1, rows, hidden) or (rows, hidden) -> (tokens, hidden): a square, row by row, behind the
    `first` tokens that have no place in the image.

    Between the places of the learned square it is bicubic interpolation, without smoothing where there are
    fewer now: what transformers does for the size of an image, and ONNX's Resize with half pixels. A table
    that is no square is returned as it is.
    """
    rows = table.reshape(-1, table.shape[-1])
    across, wanted = math.isqrt(max(len(rows) - first, 0)), math.isqrt(tokens - first)
    if across == 0 or across**2 != len(rows) - first or wanted**2 != tokens - first or across == wanted:
        return table
    square = rows[first:].reshape(across, across, -1)
    between = cubic(across, wanted)
    found = np.einsum("ia,jb,abh->ijh", between, between, square, optimize=True)
    return np.concatenate([rows[:first], found.reshape(wanted**2, -1)])


def cubic(points: int, wanted: int) -> Array:
    """(wanted, points): what each new place takes of each old one. Places beyond an end take the end's."""
    weights = np.zeros((wanted, points))
    for i in range(wanted):
        place = (i + 0.5) * points / wanted - 0.5
        for j in range(math.floor(place) - 1, math.floor(place) + 3):
            weights[i, min(max(j, 0), points - 1)] += _share(abs(place - j))
    return weights


def _share(distance: float) -> float:
    """Keys' cubic kernel: 1 at the place itself, 0 at the other places and beyond two of them."""
    if distance <= 1.0:
        return ((BEND + 2.0) * distance - (BEND + 3.0)) * distance**2 + 1.0
    if distance < 2.0:
        return (((distance - 5.0) * distance + 8.0) * distance - 4.0) * BEND
    return 0.0
