"""How many decimals of an answer a client may show: the last one stays far above the noise of decryption
(`plans/error.py`).

An answer as anybody sees it: rounded, labelled where the model has labels, with reasons to doubt it.

>>> import tacita
>>> plan = tacita.plan(scheme="bumblebee", tokens=16, texts=["a film of quiet beauty", "a waste of time"])
>>> answer = judge(plan, np.array([-1.56149, 1.70552]))
>>> (answer.label, answer.logits, answer.warnings)
('positive', (-1.561, 1.706), ())
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from math import ceil, frexp, ldexp

import numpy as np
from numpy.typing import NDArray

from tacita.errors import InputError, NoiseError
from tacita.plans.error import MOST_DECIMALS, quiet
from tacita.plans.plan import ParameterInfo
from tacita.plans.presets import noise_of
from tacita.plans.scheme import PlanHeader, shown_step
from tacita.texts.answer import Answer as Answer
from tacita.texts.answer import withhold_failed
from tacita.texts.embed import Text, tokens_of, unknown_only
from tacita.texts.embedding import Embedder
from tacita.texts.spans import Rows
from tacita.texts.task import EVERY_TOKEN, SINGLE_LABEL, TEXT, about, is_vector, read
from tacita.texts.vectors import LEAST_LENGTH, finished, length


def decimals_for(noise: float, most: int = MOST_DECIMALS) -> int:
    """The most decimals that are quiet. Raises NoiseError when not even whole numbers are."""
    quiet_decimals = [decimals for decimals in range(most + 1) if quiet(decimals, noise)]
    if not quiet_decimals:
        raise NoiseError(
            f"answers would carry noise of {noise:.2g}: rounded to whole numbers they would still show it",
            hint="take a preset with a larger scale (n16_leveled), for one text --packing multidiagonal "
            "--functions thor, which is quieter and takes longer, or a model whose answers are smaller",
        )
    return quiet_decimals[-1]


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


# What a client shows of a decrypted answer: rounded numbers, of a vector of length 1 where the model
# normalises.

LARGEST = 1e280  # that is shown; dividing it by a step stays finite


def rounded(plan: PlanHeader, values: NDArray[np.float64]) -> tuple[float, ...]:
    """values: finite, (outputs,), as decrypted -> the answer, in multiples of `rounding_step`.

    Decryption leaves noise that depends on the key, and rounding covers it, so a step must stay as large
    beside the noise as the plan made it: its `logit_step` or, normalised, its `step`. Normalising v to
    v / |v| divides the noise by |v| as well, up to the part along v, which is no larger than an entry's. So
    the step is divided by |v| and rounded up to two digits, so that it tells little of |v|: of a vector of
    length 20 a step of 0.01 becomes 0.0005, of one of length 0.3 it becomes 0.034. No digit that is shown is
    finer than the decrypted vector's were.
    """
    step = rounding_step(plan, values)
    places = max(0, 1 - math.floor(math.log10(step)))  # a step has two digits
    numbers = np.clip(finished(values, plan.normalise), -LARGEST, LARGEST)
    steps = np.round(numbers / step)
    return tuple(round(float(v) * step, places) + 0.0 for v in steps)


def rounding_step(plan: PlanHeader, values: NDArray[np.float64]) -> float:
    """Returns the step of `rounded`; of an overflown vector, never trusted, that of the largest."""
    return shown_step(plan, min(max(length(values), LEAST_LENGTH), 1.0 / LEAST_LENGTH))


UNREADABLE = "the model's tokenizer knows nothing of this text: any other such text gets the same answer"
STEPS = 10  # of rounding that an answer should span at least


def judge(
    plan: PlanHeader, values: NDArray[np.float64], *, sound: bool = True, real: int | None = None
) -> Answer:
    """Rounds an answer, (outputs,) or (rows, outputs), reads it by the model's task, and says whether it can
    be trusted.

    Of a model that answers for every token the rows are those of tokens, of any other there is one. sound:
    the response passed its own checks. real: tokens of the text; rows after them are padding's and dropped.
    An answer about tokens is told by `understood`.

    The label is that of the largest *rounded* logit, of several equal ones the first: the unrounded logits
    decide nothing that anybody sees, and scores are computed from the rounded ones.

    An input that leaves the calibrated intervals makes polynomials grow. What is left of that after
    decoding shows in slots that must be empty or equal, in the check of the last LayerNorm, and in logits
    beyond their calibrated bound: then no label and no number is told (`Answer.empty`). A warning stands
    beside an answer whose steps of rounding are hardly smaller than answers are, and beside a label that
    another one equals.
    """
    values = np.atleast_2d(values)[: real if plan.task in EVERY_TOKEN else 1]
    size, finite = float(np.max(np.abs(values))), np.nan_to_num(np.ravel(values))
    untrue = tuple(islice(_doubts(plan.answer, size, sound), 1))
    logits = rounded(plan, finite)
    answer = read(plan, logits, untrue or (*_coarse(plan, finite), *_tied(plan, logits)), len(values))
    return withhold_failed(replace(answer, trusted=answer.trusted and not untrue))


def understood(plan: PlanHeader, answer: Answer, front: Embedder | None, text: Text | None) -> Answer:
    """An answer about tokens, told by the text's; any other as it is, and any without a text. Of one that
    failed its checks what is behind it is told so.

    Raises InputError for a text that the task cannot be about, or with other tokens than the answer has.
    """
    if answer.empty:
        return withhold_failed(understood(plan, answer.anyway, front, text))
    if front is None or front.tokenizer is None or text is None:
        return answer
    if unknown_only(front, text):
        answer = replace(answer, warnings=(*answer.warnings, UNREADABLE))
    if not isinstance(answer, Rows):
        return answer
    tokens = tokens_of(front, text)
    if len(tokens) > len(answer.table):
        raise InputError(
            f"an answer for {len(answer.table)} tokens, the text has {len(tokens)}",
            hint="give the text that was encrypted",
        )
    logits = answer.logits[: len(tokens) * answer.outputs]
    return replace(about(plan, replace(answer, logits=logits), tokens), trusted=answer.trusted)


def _doubts(bound: float, size: float, sound: bool) -> Iterator[str]:
    """Without the size: what is not shown is not told by the warning either."""
    outside = "outside the calibrated intervals"
    if not sound:
        yield f"{outside}: the response fails its own checks; do not trust the answer"
    if not size <= bound:
        yield f"{outside}: an answer beyond its calibrated bound of {bound:.1f}; do not trust the answer"


def _coarse(plan: PlanHeader, values: NDArray[np.float64]) -> Iterator[str]:
    """The step is above a tenth of the largest answer or, of a vector, above a tenth of its mean entry."""
    step, size, what = rounding_step(plan, values), plan.answer, "no answer exceeds"
    if is_vector(plan):
        size, what = float(np.mean(np.abs(finished(values, plan.normalise)))), "the mean entry is"
    if size < STEPS * step:
        yield (
            f"rounded to multiples of {step:g}, and {what} {size:.2g}: the plan's noise leaves no more "
            "decimals; a plan with --functions thor, of --packing multidiagonal or of another scheme may"
        )


def _tied(plan: PlanHeader, logits: tuple[float, ...]) -> Iterator[str]:
    """Several labels share the largest rounded logit."""
    one_label = plan.task == TEXT and plan.problem == SINGLE_LABEL and len(plan.labels) > 1
    if one_label and (count := logits.count(max(logits))) > 1:
        yield f"{count} labels have the largest logit as it is rounded: the first of them is named"
