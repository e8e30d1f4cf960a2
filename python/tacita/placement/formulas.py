"""A price table from operation formulas, for rings that have not been measured.

Units are one number-theoretic transform of one limb and one pass of multiply-accumulate over one limb. L
limbs, k special primes, D = ceil(L / k) digits. Hybrid key switching with an NTT-resident input: L inverse
transforms, then D (L + k) - L forward ones, an inner product of 2 D (L + k) passes, and a mod-down of 2 (k +
L) transforms.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TypeAlias

from tacita.placement.cost import Prices, Sizes

# N = 2^16, one limb, one core, AVX2: 0.168 measured on the prototype, and its share of base conversion
NTT_MS = 0.19
# N = 2^16, one limb of one polynomial: a multiply-add of a matrix product that stays in cache, two halves
GEMM_MS = 0.0035
FFT_NTTS = 10  # a complex Fourier transform of all slots, in transforms of one limb
PASS_MS = 0.03  # N = 2^16, one limb: a multiply-accumulate bound by memory
BOOTSTRAP_PASSES = (
    26_000  # transforms of one complex bootstrap; a real one has one modular reduction instead of two
)
LIMBS = (1, 3, 6, 9, 12, 16)
Formula: TypeAlias = Callable[[int, int, float, float], float]  # limbs, special primes, a transform, a pass


def formula_prices(log_n: int, *, special: int = 7, limbs_at_level_0: int = 3) -> Prices:
    """Prices of one core at ring degree 2^log_n; transforms grow as N log N, passes as N."""
    ntt = NTT_MS * 2.0 ** (log_n - 16) * log_n / 16
    one_pass = PASS_MS * 2.0 ** (log_n - 16)
    ms = {op: {limbs: f(limbs, special, ntt, one_pass) for limbs in LIMBS} for op, f in _FORMULAS.items()}
    whole = BOOTSTRAP_PASSES * ntt
    return Prices(
        machine="formulas, one core",
        log_n=log_n,
        threads=1,
        limbs_at_level_0=limbs_at_level_0,
        yardstick_ms=1.09,
        ms=ms,
        bootstrap_ms={
            "complex": {"alone": whole, "each": whole},
            "real": {"alone": 0.62 * whole, "each": 0.62 * whole},
        },
        sizes=Sizes.of_ring(log_n),
        keygen_seconds_per_gb=15.0,
        source="tacita.placement.formulas",
    )


def _digits(limbs: int, special: int) -> int:
    return ceil(limbs / special)


def _hoist(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    return _digits(limbs, special) * (limbs + special) * ntt


def _inner(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    return 2 * _digits(limbs, special) * (limbs + special) * one_pass


def _key_switch(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    down = 2 * (special + limbs) * ntt
    return _hoist(limbs, special, ntt, one_pass) + _inner(limbs, special, ntt, one_pass) + down


def _tensor(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    return 4 * limbs * one_pass


def _rescale(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    return 2 * limbs * ntt


def _mul(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    args = (limbs, special, ntt, one_pass)
    return _tensor(*args) + _key_switch(*args) + _rescale(*args)


def _plain(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    return 2 * limbs * one_pass


def _lower(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    return 2 * (special + limbs) * ntt  # the mod-down of a key switch; the last prime goes with them


def _outer(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    return 1.5 * limbs * one_pass  # of four passes most operands stay in cache


def _matmul(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    return 2 * limbs * one_pass * GEMM_MS / PASS_MS


def _encode(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    return (limbs + FFT_NTTS) * ntt


def _lifted(formula: Formula) -> Formula:
    """Over the special primes too."""
    return lambda limbs, special, *units: formula(limbs + special, special, *units)


def _scalar(limbs: int, special: int, ntt: float, one_pass: float) -> float:
    return 2 * limbs * one_pass


_FORMULAS: dict[str, Formula] = {
    "rotate": _key_switch,
    "conjugate": _key_switch,
    "relin": _key_switch,
    "hoist": _hoist,
    "rotate_hoisted": _inner,
    "tensor": _tensor,
    "mul": _mul,
    "mul_plain": _plain,
    "mul_lifted": _lifted(_plain),
    "lower": _lower,
    "mul_scalar": _scalar,
    "add": _scalar,
    "outer": _outer,
    "matmul": _matmul,
    "encode": _encode,
    "encode_lifted": _lifted(_encode),
    "matmul_input": _scalar,
    "rescale": _rescale,
}
