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

SILU = Chain(
    0.183143425,
    -0.925491966,
    0,
    (
        Stage(1, (), -0.682692226),
        Stage(1, (0.112333079,), -0.876326538),
        Stage(1, (-0.049080384, -0.947887329), -0.781703735),
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
