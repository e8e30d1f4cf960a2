"""An answer as anybody sees it: rounded, labelled where the model has labels, with reasons to doubt it.

>>> import tacita
>>> plan = tacita.plan(scheme="bumblebee", tokens=16, texts=["a film of quiet beauty", "a waste of time"])
>>> judge(plan, np.array([-1.56149, 1.70552]))
Answer(label='positive', logits=(-1.561, 1.706), warnings=())
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.client.rounding import rounded
from tacita.plans.head import Head


@dataclass(frozen=True)
class Answer:
    """label: None for a model without classifier. logits: rounded to the plan's decimals. warnings: see
    `judge`.
    """

    label: str | None
    logits: tuple[float, ...]
    warnings: tuple[str, ...]

    @property
    def vector(self) -> NDArray[np.float64]:
        """The logits as an array, (outputs,): the text's embedding, of a model without classifier."""
        return np.array(self.logits)


def judge(plan: Head, values: NDArray[np.float64], *, sound: bool = True) -> Answer:
    """Rounds an answer, (outputs,), and says whether it can be trusted. sound: the response passed its own
    checks.

    The label is that of the largest *rounded* logit, of several equal ones the first: the unrounded logits
    decide nothing that anybody sees.

    An input that leaves the calibrated intervals makes polynomials grow. What is left of that after
    decoding shows in slots that must be empty or equal, in the check of the last LayerNorm, and in logits
    beyond their calibrated bound.
    """
    doubt = next(_doubts(plan.answer, float(np.max(np.abs(values))), sound), None)
    warnings = (f"outside the calibrated intervals: {doubt}; do not trust the answer",) if doubt else ()
    logits = rounded(np.nan_to_num(values), plan.decimals, plan.normalise)
    return Answer(plan.labels[int(np.argmax(logits))] if plan.labels else None, logits, warnings)


def _doubts(bound: float, size: float, sound: bool) -> Iterator[str]:
    if not sound:
        yield "the response fails its own checks"
    if not size <= bound:
        yield f"an answer of magnitude {size:.1f}, calibrated up to {bound:.1f}"
