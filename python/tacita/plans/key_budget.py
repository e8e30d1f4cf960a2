"""How many answers one secret key may give where the server sees them.

CKKS is not secure against chosen ciphertexts. A server that chooses what is decrypted and sees what is shown
reads linear functions of the secret key, as many bits as a shown number has. Dimension and modulus of equal
security are proportional (ePrint 2024/463), so that a key whose modulus lies below the largest one of 128
bits can lose some of its coefficients and keep 128 bits. That many bits are its budget.

>>> int(spare_bits(16, 1711.6)), int(spare_bits(16, 1744.0))    # of n16 and n16_leveled
(2104, 178)
"""

from __future__ import annotations

import math

from tacita.plans.plan import Plan
from tacita.texts.task import CHOICE

SECURE = {13: 214.0, 14: 430.0, 15: 868.0, 16: 1747.0, 17: 3523.0}  # log2 N: log2 QP of 128 bits


def spare_bits(log_n: int, log_qp: float) -> float:
    """Bits of a uniform ternary secret of dimension 2^log_n, seen under a modulus of log_qp bits, that may be
    known while the rest keeps 128 bits of security."""
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
