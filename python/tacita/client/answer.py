"""An answer as anybody sees it: rounded, labelled where the model has labels, with reasons to doubt it.

>>> import tacita
>>> plan = tacita.plan(scheme="bumblebee", tokens=16, texts=["a film of quiet beauty", "a waste of time"])
>>> answer = judge(plan, np.array([-1.56149, 1.70552]))
>>> (answer.label, answer.logits, answer.warnings)
('positive', (-1.561, 1.706), ())
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tacita.client.rounding import rounded, rounding_step
from tacita.errors import InputError
from tacita.front.embed import Text
from tacita.front.front import Embedder
from tacita.front.tokens import tokens_of, unknown_only
from tacita.plans.head import Head
from tacita.tasks.answer import Answer as Answer
from tacita.tasks.answer import withhold_failed
from tacita.tasks.embedding import finished
from tacita.tasks.read import about, read
from tacita.tasks.task import EVERY_TOKEN, is_vector
from tacita.tasks.tokens.rows import Rows

UNREADABLE = "the model's tokenizer knows nothing of this text: any other such text gets the same answer"
STEPS = 10  # of rounding that an answer should span at least


def judge(plan: Head, values: NDArray[np.float64], *, sound: bool = True, real: int | None = None) -> Answer:
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
    beside an answer whose steps of rounding are hardly smaller than answers are.
    """
    values = np.atleast_2d(values)[: real if plan.task in EVERY_TOKEN else 1]
    size, told = float(np.max(np.abs(values))), np.nan_to_num(np.ravel(values))
    untrue = tuple(islice(_doubts(plan.answer, size, sound), 1))
    answer = read(plan, rounded(plan, told), untrue or tuple(_coarse(plan, told)), len(values))
    return withhold_failed(replace(answer, trusted=answer.trusted and not untrue))


def understood(plan: Head, answer: Answer, front: Embedder | None, text: Text | None) -> Answer:
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
    kept = answer.logits[: len(tokens) * answer.outputs]
    return replace(about(plan, replace(answer, logits=kept), tokens), trusted=answer.trusted)


def _doubts(bound: float, size: float, sound: bool) -> Iterator[str]:
    """Without the size: what is not shown is not told by the warning either."""
    outside = "outside the calibrated intervals"
    if not sound:
        yield f"{outside}: the response fails its own checks; do not trust the answer"
    if not size <= bound:
        yield f"{outside}: an answer beyond its calibrated bound of {bound:.1f}; do not trust the answer"


def _coarse(plan: Head, values: NDArray[np.float64]) -> Iterator[str]:
    """The step is above a tenth of the largest answer or, of a vector, above a tenth of its mean entry."""
    step, size, what = rounding_step(plan, values), plan.answer, "no answer exceeds"
    if is_vector(plan):
        size, what = float(np.mean(np.abs(finished(values, plan.normalise)))), "the mean entry is"
    if size < STEPS * step:
        yield (
            f"rounded to multiples of {step:g}, and {what} {size:.2g}: the plan's noise leaves no more "
            "decimals; a plan with --packing multidiagonal --functions thor or another scheme may"
        )
