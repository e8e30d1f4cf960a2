"""Figures of the engine's presets, so that planning needs no compiled module. A test holds them equal to the
engine.

`n16` bootstraps. The leveled presets do not: `max_level` rescalings are all that a circuit has, rotations and
products cost less, keys are few. `leveled` finds the smallest secure ring that is deep enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacita.errors import InputError, nearest
from tacita.plans.plan import ParameterInfo, Plan
from tacita.slots.noise import NoiseModel
from tacita.texts.task import CHOICE

LOG_QP = 1731.4
# the engine computes it from its parameters and says -1000 for that or less
BOOTSTRAP_FAILURE = -1000.0
# stands for "nothing to fail": JSON has no infinity
NO_BOOTSTRAP = -1024.0


def _preset(
    name: str,
    log_n: int,
    log_qp: float,
    security_bits: int,
    max_level: int = 16,
    failure: float = BOOTSTRAP_FAILURE,
) -> ParameterInfo:
    return ParameterInfo(
        preset=name,
        log_n=log_n,
        slots=1 << (log_n - 1),
        max_level=max_level,
        log_qp=log_qp,
        security_bits=security_bits,
        secret="uniform ternary",
        failure_log2=failure,
    )


# bits of security of the same chain on rings too small to hide anything
TOYS = {8: 0, 9: 1, 10: 2, 11: 4, 12: 7, 13: 15, 14: 31, 15: 64}
# log2 N of the leveled presets: (depth, log2 QP)
LEVELED = {13: (3, 212.0), 14: (7, 429.0), 15: (17, 862.0), 16: (34, 1744.0), 17: (70, 3470.0)}
# rings with the chain of n15_leveled
LEVELED_TOYS = {9: 2, 10: 4, 11: 8, 12: 15}

PRESETS = (
    {"n16": _preset("n16", 16, LOG_QP, 128)}
    | {
        name: _preset(name, n, log_qp, 128, depth, NO_BOOTSTRAP)
        for n, (depth, log_qp) in LEVELED.items()
        for name in [f"n{n}_leveled"]
    }
    | {name: _preset(name, n, LOG_QP, bits) for n, bits in TOYS.items() for name in [f"insecure_toy_n{n}"]}
    | {
        name: _preset(name, n, LEVELED[15][1], bits, LEVELED[15][0], NO_BOOTSTRAP)
        for n, bits in LEVELED_TOYS.items()
        for name in [f"insecure_toy_leveled_n{n}"]
    }
)


def can_bootstrap(info: ParameterInfo) -> bool:
    """Whether a circuit under these parameters may bootstrap."""
    return info.failure_log2 > NO_BOOTSTRAP


SMALLEST = "leveled"  # stands for the smallest secure preset without bootstrapping that a circuit fits
TOY_CHAIN = 15  # log2 N of the preset whose chain the toys have


@dataclass(frozen=True)
class Chain:
    """log_scale: log2 of the scale. special: special primes, and limbs of a key-switching digit."""

    log_scale: float
    special: int


SCALE = 38.0  # log2, of n16 and its toys: at all levels but the three highest, where it is larger
CHAINS = {  # as in the engine's presets
    13: Chain(38.0, 1),
    14: Chain(40.0, 2),
    15: Chain(39.0, 3),
    16: Chain(41.0, 6),
    17: Chain(41.0, 11),
}


def candidates(preset: str) -> Sequence[ParameterInfo]:
    """The presets that a name stands for, the smallest ring first. Raises InputError for an unknown name."""
    if preset == SMALLEST:
        return [PRESETS[f"n{log_n}_leveled"] for log_n in sorted(LEVELED)]
    if preset not in PRESETS:
        raise InputError(f"no preset {preset!r}", hint=nearest(preset, (SMALLEST, *PRESETS)))
    return [PRESETS[preset]]


def noise_of(parameters: ParameterInfo) -> NoiseModel:
    """Noise in the slots under these parameters."""
    leveled = not can_bootstrap(parameters)
    scale = chain_of(parameters).log_scale if leveled else SCALE
    return NoiseModel(parameters.slots, scale_bits=scale)


def chain_of(parameters: ParameterInfo) -> Chain:
    """Returns the chain of parameters without bootstrapping."""
    toy = parameters.preset.startswith("insecure")
    return CHAINS[TOY_CHAIN if toy else parameters.log_n]


# How many answers one secret key may give where the server sees them.
#
# CKKS is not secure against chosen ciphertexts. A server that chooses what is decrypted and sees what is
# shown reads linear functions of the secret key, as many bits as a shown number has. Dimension and modulus of
# equal security are proportional (ePrint 2024/463), so that a key whose modulus lies below the largest one of
# 128 bits can lose some of its coefficients and keep 128 bits. That many bits are its budget.

SECURE = {13: 214.0, 14: 430.0, 15: 868.0, 16: 1747.0, 17: 3523.0}  # log2 N: log2 QP of 128 bits


def spare_bits(log_n: int, log_qp: float) -> float:
    """Bits of a uniform ternary secret of dimension 2^log_n, seen under a modulus of log_qp bits, that may be
    known while the rest keeps 128 bits of security.

    >>> int(spare_bits(16, 1731.4)), int(spare_bits(16, 1744.0))    # of n16 and n16_leveled
    (927, 178)
    """
    return (1 << log_n) * (1.0 - log_qp / SECURE[log_n]) * math.log2(3)


def answers_within(spare: float, bits: float) -> int:
    """Answers of so many bits, at least one, that carry no more than the spare bits. One answer of many
    numbers can carry more: for such nothing is promised."""
    return max(1, int(spare / bits))


def answers_of_a_key(plan: Plan) -> int | None:
    """The budget of a plan's key in answers, of one text each. None for parameters below 128 bits, whose key
    keeps nothing secret."""
    p = plan.parameters
    return answers_within(spare_bits(p.log_n, p.log_qp), _bits(plan)) if p.security_bits >= 128 else None


def budget_warning(plan: Plan, answers: int) -> str | None:
    """What is said of a key that has decrypted so many answers, where they exceed its budget."""
    budget = answers_of_a_key(plan)
    if budget is None or answers <= budget:
        return None
    return (
        f"{answers} answers were decrypted with this key; more than {budget} that the server sees can tell "
        "it so much of the key that fewer than 128 bits of security are left: make a new one (tacita keygen; "
        "of a service: tacita keys remove)"
    )


def _bits(plan: Plan) -> float:
    """What an answer shows: each number, within the bound and in multiples of the step; of a choice the word
    and its share."""
    response = plan.layout.response
    number = max(1.0, math.log2(2.0 * plan.answer / (plan.step if plan.normalise else plan.logit_step)))
    if plan.task == CHOICE:
        return number + math.log2(response.size)
    return number * response.size * response.rows
