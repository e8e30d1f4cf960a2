"""Products of coefficients: which slot holds what, a matrix, and what its product means.

**slot = feature * m/2 + token mod m/2, the second half of the tokens in imaginary parts.** m tokens (a power
of two) and s slots: a ciphertext holds 2s/m features of all tokens. For 128 tokens in 32768 slots that is 512
features: 768 of them take two ciphertexts, 3072 take six. Slots-to-coefficients brings these slots to where a
product by a plain matrix wants them, and the product leaves its results where coefficients-to-slots brings
them to slots of this layout again; `crates/coefficients/src/arrangement.rs` follows every bit of the way. The
engine computes the same places; a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from tacita.errors import LevelError, ShapeError
from tacita.slots.base import Kind, Vector
from tacita.slots.counts import series_depth

# Trigonometric polynomials of slots, by which a bootstrap can end: f(w) = Re sum_k c_k exp(i k PHASE w).
#
# An example: c = (0, -1j) is sin(PHASE w). The engine's modular reduction finds z = exp(i PHASE w) of every
# slot w in [-1, 1]; z covers PHASE / pi = 69 % of the circle, and the rest belongs to the extension by which
# a function that is not periodic becomes so (`approx.fourier`).

PHASE = 2.166006510901662  # of the preset n16, as in crates/ckks/src/bootstrap/refresh: a test compares
# An error of z by the error of a plain bootstrap, which reads w from the angle 12 pi w / (6 * 185.6) of its z
OF_Z = 1.0 / 29.6


def level_after(harmonics: Vector, max_level: int) -> int:
    """Returns the level of the results of c_0 ... c_n. Raises ShapeError unless all are finite, n is at least
    1 and c_n is not zero, LevelError for too many."""
    shaped = harmonics.ndim == 1 and len(harmonics) >= 2
    if not shaped or not np.all(np.isfinite(harmonics)) or harmonics[-1] == 0:
        raise ShapeError(
            f"bootstrap_through: harmonics of shape {harmonics.shape}",
            hint="give at least two finite coefficients, the last one not zero",
        )
    level = max_level + 1 - series_depth(len(harmonics) - 1)
    if level < 0:
        raise LevelError(
            f"bootstrap_through: {len(harmonics) - 1} harmonics, {max_level} levels",
            hint="take fewer of them",
        )
    return level


def contents(values: Sequence[Vector], kinds: Sequence[Kind]) -> list[Vector]:
    """Returns what a bootstrap makes of each before its function. A pair is a + ib, which has parts that are
    not a and b where these have imaginary parts."""
    parts = [v if kind == "complex" else np.real(v) for v, kind in zip(values, kinds, strict=True)]
    for i in range(0, kinds.count("pair"), 2):
        parts[i] = parts[i] - np.imag(values[i + 1])
        parts[i + 1] = parts[i + 1] + np.imag(values[i])
    return parts


def apply_harmonics(values: Vector, kind: Kind, harmonics: Vector) -> Vector:
    """Computes f of the real parts, and for "complex" i times f of the imaginary parts."""
    real = evaluate_harmonics(harmonics, np.real(values))
    return real + 1j * evaluate_harmonics(harmonics, np.imag(values)) if kind == "complex" else real


def evaluate_harmonics(harmonics: Vector, w: Vector) -> Vector:
    """Computes Re sum_k c_k exp(i k PHASE w), elementwise."""
    return np.real(np.polynomial.polynomial.polyval(np.exp(1j * PHASE * w), harmonics))


def slope(harmonics: Vector) -> float:
    """Returns the root mean square over the circle of the derivative by the angle of z: what errors of z grow
    by."""
    orders = np.arange(len(harmonics))
    return sqrt(0.5 * float(np.sum((orders * np.abs(harmonics)) ** 2)))


RATIO = 8  # small ciphertexts of a large one; crates/coefficients has the same constant
INPUT_LEVEL = 1  # that a product takes
OP = "coefficient_product"
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CoefficientLayout:
    """A tensor (tokens, size) in ciphertexts of so many slots. Errors: ShapeError for a token count that is
    not admitted."""

    slots: int
    tokens: int
    size: int

    def __post_init__(self) -> None:
        most = self.slots // 4
        if self.tokens & (self.tokens - 1) or not 2 <= self.tokens <= most:
            hint = f"a power of two from 2 to {most}"
            raise ShapeError(f"coefficients packing does not admit {self.tokens} tokens", hint=hint)

    @property
    def features(self) -> int:
        """Number of features of one ciphertext."""
        return 2 * self.slots // self.tokens

    @property
    def count(self) -> int:
        """Number of ciphertexts of the tensor."""
        return -(-self.size // self.features)

    def pack(self, tensor: Numbers) -> list[Numbers]:
        """Packs a tensor (tokens, size) into one complex slot vector per ciphertext."""
        if tensor.shape != (self.tokens, self.size):
            raise ShapeError(
                f"pack: tensor {tensor.shape}, layout {(self.tokens, self.size)}", hint="pad the tokens"
            )
        whole = np.zeros((self.tokens, self.count * self.features))
        whole[:, : self.size] = tensor
        real, imaginary = np.split(whole.T, 2, axis=1)
        return list((real + 1j * imaginary).reshape(self.count, self.slots))

    def unpack(self, slots: Sequence[Numbers]) -> Numbers:
        """Unpacks slot vectors to (tokens, size)."""
        if len(slots) != self.count:
            raise ShapeError(
                f"unpack: {len(slots)} ciphertexts, the layout has {self.count}", hint="all of one tensor"
            )
        whole = np.concatenate(slots).reshape(-1, self.tokens // 2)
        return np.concatenate([whole.real, whole.imag], axis=1).T[:, : self.size]

    @property
    def block(self) -> int:
        """Number of features of a small ciphertext."""
        return self.features // RATIO

    @property
    def blocks(self) -> int:
        """Number of small ciphertexts of the tensor."""
        return -(-self.size // self.block)


@dataclass(frozen=True, eq=False)
class CoefficientMatrix:
    """A map: y = x W^T + b for every token. weights: (outputs, inputs), bias: (outputs,), real. Results must
    lie in [-1, 1], as inputs do.

    Errors: ShapeError for shapes that do not fit together, numbers that are not finite.
    """

    tokens: int
    weights: Numbers
    bias: Numbers

    def __post_init__(self) -> None:
        shaped = self.weights.ndim == 2 and self.bias.shape == self.weights.shape[:1] and self.weights.size
        if not shaped or not (np.isfinite(self.weights).all() and np.isfinite(self.bias).all()):
            raise ShapeError(
                f"{OP}: weights {self.weights.shape}, bias {self.bias.shape}",
                hint="finite numbers, (outputs, inputs) and (outputs,)",
            )

    def inputs(self, slots: int) -> CoefficientLayout:
        """Returns the layout of x."""
        return CoefficientLayout(slots, self.tokens, self.weights.shape[1])

    def outputs(self, slots: int) -> CoefficientLayout:
        """Returns the layout of y."""
        return CoefficientLayout(slots, self.tokens, self.weights.shape[0])

    def products(self, slots: int) -> int:
        """Counts the polynomials of weights, each transformed and multiplied once: what the product costs."""
        outputs = self.outputs(slots)
        return self.inputs(slots).blocks * outputs.blocks * outputs.block

    def apply(self, values: Sequence[Vector], harmonics: Vector | None) -> list[Vector]:
        """Returns the slots of the result: zero, or f of zero, where no feature is."""
        slots = len(values[0])
        x = self.inputs(slots).unpack([np.asarray(v, np.complex128) for v in values])
        y = self.outputs(slots).pack(x @ self.weights.T + self.bias)
        return y if harmonics is None else [apply_harmonics(v, "complex", harmonics) for v in y]


def check_product(count: int, slots: int, matrix: CoefficientMatrix) -> None:
    """Raises ShapeError unless so many ciphertexts are what the matrix takes."""
    if count != (wanted := matrix.inputs(slots).count):
        raise ShapeError(f"{OP}: {count} ciphertexts, the matrix takes {wanted}", hint="all of one tensor")


def product_level(harmonics: Vector | None, level: int | None, max_level: int) -> int:
    """Returns the level of the results: the highest possible, or `level`. Raises LevelError, ShapeError where
    there is no such level or function."""
    highest = max_level if harmonics is None else level_after(harmonics, max_level)
    if level is None:
        return highest
    if harmonics is None or not 0 <= level <= highest:
        raise ShapeError(
            f"{OP}: results at level {level}, at most {highest}",
            hint="a level with a function alone, and no higher than it reaches",
        )
    return level


def refresh_level(harmonics: Vector | None, level: int) -> int:
    """Returns the level at which a refresh ends before it goes through the function, whose results are at
    `level`; its price depends on it."""
    return level if harmonics is None else level + series_depth(len(harmonics) - 1) - 1
