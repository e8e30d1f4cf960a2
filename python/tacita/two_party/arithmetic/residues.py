"""One party's share of a fixed-point tensor, and what can be done to it alone.

Shares are residues modulo 2^ring that add up to the value times 2^fraction. Modulo a smaller power of two
they stay shares; dropping low bits while the ring shrinks by as many is local too: the client adds one unit
after it, so that the result is the next number below or above, right on average; multiplying by 2^d makes the
ring grow by d.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.two_party.arithmetic.base import Array, Fixed, Integers, constant, rounded

Words = NDArray[np.uint64]
WORD = 64


@dataclass(frozen=True)
class Share:
    """values: canonical residues modulo 2^ring of value * 2^fraction, any shape. No repr of the values: they
    are secret."""

    values: Words
    ring: int
    fraction: int

    def __repr__(self) -> str:
        return f"Share{self.values.shape} mod 2^{self.ring}, fraction {self.fraction}"

    def like(self, values: Words) -> Share:
        """Puts other values into the same format."""
        return Share(np.ascontiguousarray(values), self.ring, self.fraction)

    def plus(self, other: Share) -> Share:
        """Adds a share in this one's format; the other has the same fraction, the same ring or a larger, and
        a shape that fits."""
        return self.like(reduced(self.values + other.values, self.ring))

    def scaled(self, fraction: int, *, client: bool) -> Share:
        """Converts to so many fraction bits; the ring moves along, up to 64 bits."""
        gained = fraction - self.fraction
        if gained < 0:
            one, ring = np.uint64(client), self.ring + gained
            return Share(reduced((self.values >> np.uint64(-gained)) + one, ring), ring, fraction)
        ring = min(self.ring + gained, WORD)
        return Share(reduced(self.values << np.uint64(gained), ring), ring, fraction)

    def reduced(self, ring: int) -> Share:
        """Reduces the share modulo 2^ring, a smaller ring or the same. Raises ValueError for a larger."""
        if ring > self.ring:
            raise ValueError(f"a share modulo 2^{self.ring} does not say its value modulo 2^{ring}")
        return Share(reduced(self.values, ring), ring, self.fraction)


def reduced(values: Words, ring: int) -> Words:
    """Reduces residues modulo 2^ring."""
    return values if ring == WORD else values & np.uint64((1 << ring) - 1)


def from_floats(x: Array, fraction: int, ring: int) -> Share:
    """Returns x * 2^fraction, rounded, modulo 2^ring: a value that one party knows, as its share."""
    values = np.rint(np.ldexp(x, fraction)).astype(np.int64).view(np.uint64)
    return Share(np.ascontiguousarray(reduced(values, ring)), ring, fraction)


def reconstruct(share: Share, other: Words) -> Array:
    """Returns the value, from both shares."""
    total = reduced(share.values + other, share.ring)
    signed = (total << np.uint64(WORD - share.ring)).view(np.int64) >> (WORD - share.ring)
    return np.ldexp(signed.astype(np.float64), -share.fraction)


# Polynomials as chains of squares, on integers: what `crates/mpc/src/nonlinear/chain.rs` computes on shares.
#
# t_0 = sigma x + shift, t_{i+1} = sign t_i^2 + sum_{k<i} mix_k t_k + constant; the value is 2^exponent times
# the last t. The numbers are those of `crates/mpc/src/nonlinear/fits.rs`; a test compares them.


@dataclass(frozen=True)
class Stage:
    """One square (sign: 1 or -1) and what is added to it."""

    sign: int
    mix: tuple[float, ...]
    constant: float


@dataclass(frozen=True)
class Chain:
    """A fitted polynomial."""

    sigma: float
    shift: float
    exponent: int
    stages: tuple[Stage, ...]

    def evaluate(self, scaled: Integers, fraction: int, *, squared: bool = False) -> Fixed:
        """Returns the value, or its square, from sigma x with so many fraction bits."""
        terms = [scaled + constant(self.shift, fraction)]
        stages = (*self.stages, Stage(1, (), 0.0)) if squared else self.stages
        for stage in stages:
            last = terms[-1]
            total = stage.sign * last * last + constant(stage.constant, 2 * fraction)
            for weight, t in zip(stage.mix, terms, strict=False):
                total = total + constant(weight, fraction) * t
            terms.append(rounded(total, fraction))
        exponent = 2 * self.exponent if squared else self.exponent
        return Fixed(terms[-1], fraction - exponent)


GELU = Chain(
    0.378766387,
    -0.832684087,
    0,
    (
        Stage(1, (), -0.217374193),
        Stage(-1, (-0.179957618,), 0.076280397),
    ),
)

GELU_FINE = Chain(
    0.30762493,
    -0.911234924,
    0,
    (
        Stage(1, (), -0.521666411),
        Stage(1, (0.204444604,), -0.471405914),
        Stage(1, (0.039233355, -0.295747111), -0.189310045),
    ),
)

GELU_TANH = Chain(
    0.377980074,
    -0.833388954,
    0,
    (
        Stage(1, (), -0.218417669),
        Stage(-1, (-0.180227571,), 0.076067918),
    ),
)

GELU_TANH_FINE = Chain(
    0.306088833,
    -0.909803426,
    0,
    (
        Stage(1, (), -0.520268127),
        Stage(1, (0.210602221,), -0.472583931),
        Stage(1, (0.044580883, -0.298792682), -0.192107212),
    ),
)

SILU = Chain(
    0.18096321,
    -0.931974991,
    0,
    (
        Stage(1, (), -0.694837516),
        Stage(1, (0.113180893,), -0.874881242),
        Stage(1, (-0.044012897, -0.94410609), -0.777996524),
    ),
)

SILU_FINE = Chain(
    0.137490697,
    -0.849542903,
    0,
    (
        Stage(1, (), 0.089572846),
        Stage(1, (1.007863112,), -0.135236599),
        Stage(1, (-0.024116504, -1.361519538), 0.320691691),
        Stage(-1, (-0.373254353, 0.117832345, 0.17255349), 0.070255669),
    ),
)

ROOT_EXP = Chain(
    0.082305333,
    0.830363367,
    0,
    (
        Stage(1, (), -0.019197173),
        Stage(1, (0.149355665,), 0.303625192),
        Stage(1, (-0.063898224, 0.114668563), -0.085705025),
    ),
)

TANH = Chain(
    0.288935431,
    -0.922016099,
    1,
    (
        Stage(1, (), -0.417813718),
        Stage(1, (-0.100071152,), -0.485558164),
        Stage(-1, (0.052918914, 0.580090205), 0.340687777),
    ),
)

RECIPROCAL = Chain(
    0.94183271,
    -1.084343049,
    2,
    (
        Stage(1, (), -0.141737092),
        Stage(1, (-0.15405351,), 0.193722571),
        Stage(1, (-0.124920167, 0.355228534), 0.222237808),
    ),
)

RSQRT = Chain(
    0.821497299,
    -0.955917606,
    1,
    (
        Stage(1, (), -0.071154709),
        Stage(1, (-0.048324887,), 0.220367688),
        Stage(1, (-0.215601571, 0.295944222), 0.433975439),
    ),
)
