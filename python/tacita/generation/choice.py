"""Which token is taken of the logits of all of them.

>>> logits = np.array([0.5, 2.0, 2.0, -1.0])
>>> Choice().of(logits, np.random.default_rng())
1
>>> Choice().near(logits, 1, step=0.1)
(2,)
>>> Choice(temperature=0.7, top_k=2).of(logits, np.random.default_rng(0)) in (1, 2)
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.errors import InputError
from tacita.tasks.answer import softmax

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """temperature: the likeliest token at 0, of several the first; above, by chance, weighted by exp(logit /
    temperature). top_k: of so many likeliest ones alone; 0 for all. seed: of the chance, None for a fresh
    one.

    Raises InputError for numbers that mean nothing.
    """

    temperature: float = 0.0
    top_k: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0.0) or self.top_k < 0:
            raise InputError(
                f"generate: temperature {self.temperature:g}, top_k {self.top_k}",
                hint="a temperature from 0, and a number of tokens or 0 for all",
            )

    def of(self, logits: Array, chance: np.random.Generator) -> int:
        """The number of one token. logits: (vocab,), finite."""
        if self.temperature == 0.0:
            return int(logits.argmax())
        best = np.argsort(-logits, kind="stable")[: self.top_k or None]
        return int(chance.choice(best, p=softmax(logits[best] / self.temperature)))

    def near(self, logits: Array, chosen: int, step: float) -> tuple[int, ...]:
        """Other tokens that logits rounded to multiples of `step` do not tell from the chosen one: a step
        apart at most. None where tokens are drawn by chance."""
        if self.temperature != 0.0:
            return ()
        found = np.flatnonzero(np.abs(logits - logits[chosen]) < 1.5 * step)
        return tuple(int(token) for token in found if token != chosen)
