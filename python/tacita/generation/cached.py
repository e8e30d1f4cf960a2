"""The logits behind a text from ciphertexts, a row a request: the server keeps what it computed of earlier
rows.

    request:   the newest row as a vector, and the mask of the text: the server learns how many rows come
    response:  the logits behind it, or which token is the likeliest

A prompt is read row by row, too: n tokens and m behind them take n + m - 1 requests. Every response is
decrypted and checked, so that a row that left its ranges is seen even where nobody asks for its logits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.checkpoint import Checkpoint
from tacita.client.session import embedded
from tacita.plans.files import digest_of
from tacita.plans.plan import Plan
from tacita.schemes.base import Place
from tacita.schemes.ciphertexts import row_by_row
from tacita.texts.answer import Answer, withhold_failed

Array = NDArray[np.float64]
Ask = Callable[[Array], Answer]  # hidden states of a text, in its order -> the logits behind it
Step = Callable[[Array], Answer]  # of a text whose rows but the last were read -> the same


class Reader:
    """An `Ask` of a text that grows: reads the rows that it has not read yet, one by one."""

    def __init__(self, step: Step) -> None:
        self._step, self._read = step, 0

    def __call__(self, rows: Array) -> Answer:
        """Asks for each row that was not read yet and returns the last answer, with the warnings of all.
        rows: of the whole text so far, at least one of them new."""
        answers = [self._step(rows[: count + 1]) for count in range(self._read, len(rows))]
        self._read = len(rows)
        doubts = dict.fromkeys(doubt for answer in answers for doubt in answer.warnings)
        last, trusted = answers[-1].anyway, all(answer.trusted for answer in answers)
        return withhold_failed(replace(last, warnings=tuple(doubts), trusted=trusted))


def cached_in_the_clear(plan: Plan, model: Checkpoint, backend: str) -> Ask:
    """Returns an `Ask` that computes one row a request on the backend "plain" or "sim"."""
    answer = row_by_row(plan, model, backend)
    return Reader(lambda rows: answer(embedded(plan, model, None, rows)))


def cached_privately(client: Any, server: Any, place: Place) -> Ask:
    """Returns an `Ask` that plays both sides on files of the place, one row a request. Raises FileError,
    ResourceError."""
    after = ""

    def step(rows: Array) -> Answer:
        nonlocal after
        request = client.encrypt(hidden_states=rows, after=after)
        with place.bar(f"row {len(rows)}") as report:
            server.evaluate(report)
        after = digest_of(request)
        answer: Answer = client.decrypt()
        return answer

    return Reader(step)
