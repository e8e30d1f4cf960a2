"""Trigonometric polynomials of slots, by which a bootstrap can end: f(w) = Re sum_k c_k exp(i k PHASE w).

An example: c = (0, -1j) is sin(PHASE w). The engine's modular reduction finds z = exp(i PHASE w) of every
slot w in [-1, 1]; z covers PHASE / pi = 69 % of the circle, and the rest belongs to the extension by which a
function that is not periodic becomes so (`approx.fourier`).
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from tacita.errors import LevelError, ShapeError
from tacita.slots.base import Kind, Vector
from tacita.slots.counts import poly_counts

PHASE = 2.166006510901662  # of the preset n16, as in crates/ckks/src/bootstrap/refresh: a test compares
# An error of z by the error of a plain bootstrap, which reads w from the angle 12 pi w / (6 * 185.6) of its z
OF_Z = 1.0 / 29.6


def check_harmonics(harmonics: Vector) -> None:
    """Raises ShapeError unless these are c_0 ... c_n, all finite, n at least 1 and c_n not zero."""
    shaped = harmonics.ndim == 1 and len(harmonics) >= 2
    if not shaped or not np.all(np.isfinite(harmonics)) or harmonics[-1] == 0:
        raise ShapeError(
            f"bootstrap_through: harmonics of shape {harmonics.shape}",
            hint="give at least two finite coefficients, the last one not zero",
        )


def harmonics_depth(degree: int) -> int:
    """Levels from z, which is one above the top, to the result: ceil(log2(degree + 1))."""
    return degree.bit_length()


def level_after(harmonics: Vector, max_level: int) -> int:
    """Of the results. Raises ShapeError for no harmonics, LevelError for too many."""
    check_harmonics(harmonics)
    level = max_level + 1 - harmonics_depth(len(harmonics) - 1)
    if level < 0:
        raise LevelError(
            f"bootstrap_through: {len(harmonics) - 1} harmonics, {max_level} levels",
            hint="take fewer of them",
        )
    return level


def harmonics_counts(degree: int, max_level: int) -> dict[tuple[str, int], int]:
    """(operation, level of its operands) -> how often for one part: as a series of the same degree in z."""
    return {(op, max_level + 1 - below): n for (op, below), n in poly_counts(degree).items()}


def apply_harmonics(values: Vector, kind: Kind, harmonics: Vector) -> Vector:
    """f of the real parts, and for "complex" i times f of the imaginary parts."""
    real = evaluate_harmonics(harmonics, np.real(values))
    return real if kind == "real" else real + 1j * evaluate_harmonics(harmonics, np.imag(values))


def evaluate_harmonics(harmonics: Vector, w: Vector) -> Vector:
    """Re sum_k c_k exp(i k PHASE w), elementwise."""
    return np.real(np.polynomial.polynomial.polyval(np.exp(1j * PHASE * w), harmonics))


def slope(harmonics: Vector) -> float:
    """Root mean square over the circle of the derivative by the angle of z: what errors of z grow by."""
    orders = np.arange(len(harmonics))
    return sqrt(0.5 * float(np.sum((orders * np.abs(harmonics)) ** 2)))
