"""Polynomials as chains of squares, on integers: what `crates/mpc/src/nonlinear/chain.rs` computes on shares.

t_0 = sigma x + shift, t_{i+1} = sign t_i^2 + sum_{k<i} mix_k t_k + constant; the value is 2^exponent times
the last t. The numbers are those of `crates/mpc/src/nonlinear/fits.rs`; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacita.two_party.integers import Fixed, Integers, constant, rounded


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
        """The value, or its square, from sigma x with so many fraction bits."""
        known = [scaled + constant(self.shift, fraction)]
        stages = (*self.stages, Stage(1, (), 0.0)) if squared else self.stages
        for stage in stages:
            last = known[-1]
            total = stage.sign * last * last + constant(stage.constant, 2 * fraction)
            for weight, t in zip(stage.mix, known, strict=False):
                total = total + constant(weight, fraction) * t
            known.append(rounded(total, fraction))
        exponent = 2 * self.exponent if squared else self.exponent
        return Fixed(known[-1], fraction - exponent)


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

P4 = Chain(
    0.379987478,
    -0.836233439,
    0,
    (
        Stage(1, (), -0.22427642),
        Stage(-1, (-0.173088971,), 0.079270853),
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
