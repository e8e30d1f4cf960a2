"""What every plan says in the same words, whether its answers come from ciphertexts or from two parties.

>>> import tacita
>>> plan = tacita.plan(scheme="bumblebee", tokens=16, texts=["a film of quiet beauty", "a waste of time"])
>>> (plan.scheme, plan.family, plan.labels, plan.batch)
('bumblebee', 'bert', ('negative', 'positive'), 1)

It is how plans are read in Python, not a format: plan.json and the two-party plan keep their own bytes.
"""

from __future__ import annotations

from typing import Protocol

from tacita.plans.link import LinkSpeed
from tacita.plans.quiet import finer


class Head(Protocol):
    """scheme: a name in `plans.scheme`. name, family, hidden (its width): of the model. labels: none for a
    model without a classifier.

    normalise: whether the client divides an answer by its length. task, problem: what an answer means
    (`tasks.task`). backwards: whether a text's rows are in reverse (`blocks.sequence.latest`). tokens: of
    every text. batch: texts in a
    request. answer: bound of an answer's magnitude, by calibration. decimals: the most that its
    numbers may have for their noise. logit_step: of what they are rounded to multiples before anyone sees
    them; step: the same of an answer that is normalised, before it is divided by its length. hash: sha256,
    hex, by which both sides know that they hold the same plan.
    """

    @property
    def scheme(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def hidden(self) -> int: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def normalise(self) -> bool: ...
    @property
    def task(self) -> str: ...
    @property
    def problem(self) -> str: ...
    @property
    def backwards(self) -> bool: ...
    @property
    def tokens(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def answer(self) -> float: ...
    @property
    def decimals(self) -> int: ...
    @property
    def step(self) -> float: ...
    @property
    def logit_step(self) -> float: ...
    @property
    def hash(self) -> str: ...
    @property
    def privacy(self) -> str: ...

    def predicted_seconds(self, link: LinkSpeed | None = None) -> float:
        """Of a request, on the machine of the prices; the link carries what `predicted_bytes` counts.

        Left out is what is done once: keys, the set-up of a session. None: both sides on one machine.
        """

    def predicted_bytes(self) -> int:
        """Sent for a request, both directions together."""


def shown_step(plan: Head, length: float) -> float:
    """What the numbers of an answer are rounded to multiples of. length: of the vector, above zero; it counts
    where the client divides by it."""
    return finer(plan.step / length) if plan.normalise else plan.logit_step
