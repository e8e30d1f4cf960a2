"""Fits the chains of squares that the two-party mode evaluates, and writes them as Rust constants.

    python -m bench two-party-polynomials [--write]

A chain computes t_0 = sigma x + a, then t_{i+1} = +-t_i^2 + sum_{k<i} c_ik t_k + b_i; its value is 2^exponent
times the last t. Squares are the cheap operation of the two-party mode (one ciphertext each way); all t must
stay inside (-1, 1), the range of the narrow ring. Two squares reach every polynomial of degree 4 (up to the
sign of its leading coefficient), three squares all but one dimension of those of degree 8. Fits are minimax:
Levenberg-Marquardt from random starts, then Lawson's reweighting. Without --write the table is printed; with
it, crates/mpc/src/nonlinear/fits.rs is written as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from bench.options import ROOT, markdown
from tacita.cli.options import option

OUTPUT = ROOT / "crates" / "mpc" / "src" / "nonlinear" / "fits.rs"
POINTS = 301
MARGIN = 0.97  # of the range (-1, 1), aimed at
LIMIT = 0.995  # refused above
FRACTION = 15  # bits of the fixed-point check
Array = NDArray[Any]


def normal(x: Array) -> Array:
    """Distribution function of the normal law."""
    return np.asarray(0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))


@dataclass(frozen=True)
class Target:
    """A function on an interval, and the form of its chain."""

    name: str
    what: str
    function: Callable[[Array], Array]
    low: float
    high: float
    squares: int
    exponent: int
    sign: int
    starts: int = 60

    def grid(self, points: int = POINTS) -> Array:
        return (np.cos(np.linspace(0, np.pi, points)) * (self.high - self.low) + self.high + self.low) / 2


@dataclass(frozen=True)
class Chain:
    """Coefficients: sigma, a, and for every stage its sign, the weights of t_0..t_{i-1} and the constant."""

    sigma: float
    shift: float
    stages: list[tuple[int, list[float], float]]

    def steps(
        self,
        x: Array,
        rounded: Callable[[Array], Array] = lambda values: values,
        constant: Callable[[float], float] = float,
    ) -> list[Array]:
        """rounded: what is stored of a t. constant: of a coefficient."""
        t = [rounded(self.sigma * x + constant(self.shift))]
        for sign, mix, free in self.stages:
            mixed = sum((constant(c) * u for c, u in zip(mix, t, strict=False)), np.zeros_like(x))
            t.append(rounded(sign * t[-1] ** 2 + mixed + free))
        return t


def build(p: Array, target: Target) -> Chain:
    """The chain of a parameter vector. A weight of the newest t is redundant (it shifts t), so stage i mixes
    t_0..t_{i-1}."""
    stages, at = [], 2
    for i in range(target.squares):
        sign = target.sign if i == target.squares - 1 else 1
        stages.append((sign, [float(c) for c in p[at : at + i]], float(p[at + i])))
        at += i + 1
    return Chain(float(np.exp(np.clip(p[0], -9, 9))), float(p[1]), stages)


def parameters(target: Target) -> int:
    return 2 + sum(1 + i for i in range(target.squares))


def residuals(p: Array, target: Target, x: Array, weights: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        t = build(p, target).steps(x)
        errors = (2.0**target.exponent * t[-1] - target.function(x)) * weights
        outside = [3 * np.maximum(0, np.abs(u) - MARGIN) for u in t[:-1]]
    return np.concatenate([errors, *outside])


def descend(p: Array, target: Target, x: Array, weights: Array, steps: int) -> tuple[Array, float]:
    """Levenberg-Marquardt with a numerical Jacobian."""
    r = residuals(p, target, x, weights)
    cost, damping = float(r @ r), 1e-3
    for _ in range(steps):
        moved = [residuals(p + 1e-7 * unit, target, x, weights) for unit in np.eye(len(p))]
        jacobian = np.stack([(m - r) / 1e-7 for m in moved], axis=1)
        if not np.isfinite(jacobian).all():
            return p, math.inf
        gram, slope = jacobian.T @ jacobian, jacobian.T @ r
        for _ in range(8):
            q = p - np.linalg.lstsq(gram + damping * np.diag(np.diag(gram) + 1e-12), slope, rcond=None)[0]
            candidate = residuals(q, target, x, weights)
            value = float(candidate @ candidate)
            if value < cost:
                break
            damping *= 4
        else:
            break
        gain, p, r, cost, damping = (cost - value) / cost, q, candidate, value, max(damping / 5, 1e-12)
        if gain < 1e-9:
            break
    return p, cost


def fit(target: Target) -> tuple[Chain, float]:
    """The chain and its largest error on the interval."""
    random, x, ones = np.random.default_rng(7), target.grid(), np.ones(POINTS)
    width, middle = target.high - target.low, (target.high + target.low) / 2
    best: tuple[float, Array] = (math.inf, np.empty(0))
    for _ in range(target.starts):
        scale = random.uniform(0.5, 1.9) / width
        rest = random.uniform(-0.8, 0.8, parameters(target) - 2)
        start = np.concatenate([[np.log(scale), -scale * middle + random.uniform(-0.3, 0.3)], rest])
        p, cost = descend(start, target, x, ones, 60)
        best = min(best, (cost, p), key=lambda pair: pair[0])
    weights, p, found = ones.copy(), best[1], (math.inf, best[1])
    for _ in range(80):
        p, _ = descend(p, target, x, weights, 6)
        t = build(p, target).steps(x)
        errors = np.abs(2.0**target.exponent * t[-1] - target.function(x))
        if max(np.abs(u).max() for u in t) < LIMIT and errors.max() < found[0]:
            found = (float(errors.max()), p.copy())
        weights = weights * np.sqrt(errors / errors.max() + 1e-3)
        weights /= weights.mean()
    return build(found[1], target), found[0]


def fixed_point_error(chain: Chain, target: Target) -> tuple[float, float]:
    """Largest and mean error when every t is rounded to FRACTION bits with the one-unit noise of a local
    truncation."""
    random, unit = np.random.default_rng(1), 2.0**-FRACTION
    x = np.linspace(target.low, target.high, 20001)

    def rounded(value: Array) -> Array:
        return np.floor(value / unit + random.random(len(x)) + random.random(len(x)) - 0.5) * unit

    def constant(value: float) -> float:
        return round(value / unit) * unit

    errors = 2.0**target.exponent * chain.steps(x, rounded, constant)[-1] - target.function(x)
    return float(np.abs(errors).max()), float(errors.mean())


def bolt_bump(a: Array) -> Array:
    """a/2 - P(a) for GELU(x) = x/2 + P(|x|) with BOLT's quartic (BumbleBee, appendix D)."""
    coefficients = [
        0.020848611754127593,
        -0.18352506127082727,
        0.5410550166368381,
        -0.03798164612714154,
        0.001620808531841547,
    ]
    return a / 2 - np.polyval(coefficients, a)


def tanh_bump(a: Array) -> Array:
    """max(a, 0) less GELU in its form with tanh, for a >= 0."""
    return np.asarray(a * 0.5 * (1 - np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))))


def silu_bump(a: Array) -> Array:
    """a sigmoid(-a)."""
    return np.asarray(a / (1 + np.exp(a)))


TARGETS = [
    Target(
        "GELU",
        "a Phi(-a) for GELU(x) = max(x, 0) - |x| Phi(-|x|)",
        lambda a: a * normal(-a),
        -0.04,
        3.29,
        2,
        0,
        -1,
    ),
    Target("GELU_FINE", "as [`GELU`], with a third square", lambda a: a * normal(-a), -0.04, 4.04, 3, 0, 1),
    Target("GELU_TANH", "as [`GELU`], for GELU in its form with tanh", tanh_bump, -0.04, 3.29, 2, 0, -1),
    Target("GELU_TANH_FINE", "as [`GELU_TANH`], with a third square", tanh_bump, -0.04, 4.04, 3, 0, 1),
    Target(
        "SILU", "a sigmoid(-a) for SiLU(x) = max(x, 0) - |x| sigmoid(-|x|)", silu_bump, -0.04, 8.29, 3, 0, 1
    ),
    Target("SILU_FINE", "as [`SILU`], with a fourth square", silu_bump, -0.04, 10.04, 4, 0, -1, starts=40),
    Target("P4", "BOLT's quartic in the form of [`GELU`]", bolt_bump, -0.04, 2.79, 2, 0, -1),
    Target(
        "ROOT_EXP",
        "exp(x/2) / sqrt(2); its square is exp(x)/2",
        lambda x: np.exp(x / 2) / math.sqrt(2),
        -10.625,
        0.25,
        3,
        0,
        1,
    ),
    Target("TANH", "1 - tanh(a), a >= 0", lambda a: 1 - np.tanh(a), -0.04, 4.04, 3, 1, -1),
    Target("RECIPROCAL", "1/x, to be doubled", lambda x: 1 / x, 0.49, 1.01, 3, 2, 1),
    Target("RSQRT", "1/sqrt(x), to be doubled", lambda x: 1 / np.sqrt(x), 0.49, 1.01, 3, 1, 1),
]

HEADER = """//! Coefficients of the chains of squares.
//! Written by `python -m bench two-party-polynomials`, which fits them; do not edit.
use super::chain::{Chain, Stage};
"""


def number(value: float) -> str:
    return f"{value:.9f}"


def rust(target: Target, chain: Chain, error: float) -> str:
    lines = [f"/// {target.what}, on [{target.low}, {target.high}]: error at most {error:.1e}."]
    lines += [f"pub const {target.name}: Chain = Chain {{"]
    lines += [f"    sigma: {number(chain.sigma)},", f"    shift: {number(chain.shift)},", "    stages: &["]
    for sign, mix, constant in chain.stages:
        lines += ["        Stage {", f"            negate: {'true' if sign < 0 else 'false'},"]
        lines += [
            f"            mix: &[{', '.join(number(c) for c in mix)}],",
            f"            constant: {number(constant)},",
            "        },",
        ]
    lines += [
        "    ],",
        f"    exponent: {target.exponent},",
        f"    low: {target.low!r},",
        f"    high: {target.high!r},",
        "};",
    ]
    return "\n".join(lines) + "\n"


def two_party_polynomials(
    write: Annotated[bool, option("--write", help="Write the Rust constants too.")] = False,
) -> None:
    """Fit the two-party mode's chains of squares: interval, squares, error in floating and fixed point."""
    blocks: list[str] = []
    heads = ("chain", "interval", "squares", "error", "in fixed point: largest, mean")
    for line in markdown(heads, _rows(blocks)):
        print(line, flush=True)
    if write:
        OUTPUT.write_text(HEADER + "\n" + "\n".join(blocks))


def _rows(blocks: list[str]) -> Iterator[tuple[object, ...]]:
    """The table's rows; their Rust constants are added to the blocks."""
    for target in TARGETS:
        chain, error = fit(target)
        largest, mean = fixed_point_error(chain, target)
        interval = f"[{target.low}, {target.high}]"
        yield target.name, interval, target.squares, f"{error:.2e}", f"{largest:.1e}, {mean:+.1e}"
        blocks.append(rust(target, chain, error))
