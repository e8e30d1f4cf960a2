"""How many decimals of an answer a client may show: the last one stays far above the noise of decryption
(`plans/quiet.py`)."""

from __future__ import annotations

from math import ceil, frexp, ldexp

from tacita.errors import PlanError
from tacita.plans.plan import ParameterInfo
from tacita.plans.presets import noise_of
from tacita.plans.quiet import MOST_DECIMALS, quiet

CHOSEN = 1.25  # bound of a word's share of a choice, which is 1 at most
CHOICE_DECIMALS = 1  # of such a share: more would say more of two logits that are near


def decimals_for(noise: float, most: int = MOST_DECIMALS) -> int:
    """The most decimals that are quiet. Raises PlanError when not even whole numbers are."""
    found = [decimals for decimals in range(most + 1) if quiet(decimals, noise)]
    if not found:
        raise PlanError(
            f"answers would carry noise of {noise:.2g}: rounded to whole numbers they would still show it",
            hint="take a preset with a larger scale (n16_leveled, n16), for one text --packing multidiagonal "
            "--functions thor, which is quieter and takes longer, or a model whose answers are smaller",
        )
    return found[-1]


def stated_noise(measured: float, parameters: ParameterInfo, answer: float) -> float:
    """What a plan states: measured, or the least that there can be, rounded up to 4, 5, 6 or 7 times a power
    of two.

    Rounded because it is one sample of a random quantity: a plan is then the same when it is made again.
    """
    mantissa, exponent = frexp(max(measured, least_noise(parameters, answer)))
    return ldexp(ceil(8.0 * mantissa), exponent - 3)


def least_noise(parameters: ParameterInfo, answer: float) -> float:
    """Noise of the last rescaling alone, in an answer of which the slots hold the part 1 / answer, halved for
    the mean of two copies and for luck. A plan that states less is not believed."""
    return 0.5 * noise_of(parameters).rescale * answer
