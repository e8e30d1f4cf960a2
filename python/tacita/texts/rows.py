"""Texts that a server reads row by row and keeps: which rows are still to be read, one of each text at a
time, and what their answers say together. Whoever asks, here or a service, follows this order.

Texts end together: one that has fewer rows to read than another, as one that has ended, has its first row
read again before, which no later row attends to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from tacita.texts.answer import Answer, withhold_failed

Array = NDArray[np.float64]


class Reading:
    """The reading of texts that grow, always the same ones. count: steps since the first row."""

    def __init__(self) -> None:
        self._read, self._there = list[int](), list[bool]()
        self._answers = list[list[Answer]]()
        self.count = 0

    def forget(self) -> None:
        """Has everything read again, from the first row on: the server keeps it no more."""
        self._read, self.count = [], 0

    def steps(self, texts: Sequence[Array]) -> Iterator[list[Array]]:
        """Yields the beginnings of all texts whose last rows are to be read together, and waits for `take`.
        texts: rows of the whole texts so far, at least one of them new."""
        first = [count - read for count, read in zip_longest(map(len, texts), self._read, fillvalue=0)]
        self._answers = [[] for _ in texts]
        for left in range(max(first) - 1, -1, -1):
            new = [left < count for count in first]
            self._there = [each or not left for each in new]
            yield [text[: len(text) - left if each else 1] for text, each in zip(texts, new, strict=True)]
        self._read = [len(text) for text in texts]

    def take(self, answers: Sequence[Answer]) -> None:
        """Takes the answers to a step."""
        self.count += 1
        for each, answer, there in zip(self._answers, answers, self._there, strict=True):
            each.extend([answer] if there else [])

    @property
    def last(self) -> list[Answer]:
        """The last answer of each text, with the warnings of all."""
        return [_last(each) for each in self._answers]


def _last(answers: Sequence[Answer]) -> Answer:
    doubts = dict.fromkeys(doubt for answer in answers for doubt in answer.warnings)
    last, trusted = answers[-1].anyway, all(answer.trusted for answer in answers)
    return withhold_failed(replace(last, warnings=tuple(doubts), trusted=trusted))
