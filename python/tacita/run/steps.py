"""A text that is read row by row on a circuit of steps, in the clear: what one step leaves, the next takes.

    steps = Steps(plan.stages, circuit, levels, be)    # be: plain or sim
    for sample in prefixes(text):
        answer = steps.answer(sample)                  # of the text so far

On ciphertexts the server does the same with files: `server.kept`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tacita.packings.base import Circuit
from tacita.packings.request import Sample
from tacita.packings.response import Answer
from tacita.plans.plan import PlacedStage
from tacita.run import executor
from tacita.slots.base import Ct
from tacita.slots.stage import Live

Cts = tuple[Ct, ...]
RESPONSE = "answer"  # the live tensor after the last stage


class Steps:
    """levels: of all that comes in. be: a backend in the clear, which encrypts and decrypts as well. kept: of
    the text so far, at these levels; of none, zeros."""

    def __init__(
        self, stages: Sequence[PlacedStage], circuit: Circuit, levels: Mapping[str, int], be: Any
    ) -> None:
        self._stages, self._circuit, self._levels, self._be = stages, circuit, levels, be
        self.kept: Mapping[str, Cts] = {}
        self.begin()

    def begin(self) -> None:
        """Forgets the text."""
        names, be = {one.before: one.count for one in self._circuit.kept}, self._be
        zero = np.zeros(1)
        self.kept = {n: tuple(be.encrypt(zero, self._levels[n]) for _ in range(c)) for n, c in names.items()}

    def answer(self, sample: Sample, **how: Any) -> Answer:
        """Of a text of which all rows but the newest have been read. how: as of `executor.run`."""
        packed, be, levels = self._circuit.request.pack([sample]), self._be, self._levels
        live: Live = {name: tuple(be.encrypt(v, levels[name]) for v in vs) for name, vs in packed.items()}
        out = executor.run(self._stages, self._circuit.stages, be, {**live, **self.kept}, **how)
        self.kept = {
            one.before: lowered(be, out[one.after], levels[one.before]) for one in self._circuit.kept
        }
        (found,) = self._circuit.response.read([be.decrypt(ct) for ct in out[RESPONSE]])
        return found


def lowered(be: Any, cts: Cts, level: int) -> Cts:
    """At the level at which they are kept."""
    return tuple(be.drop_to(ct, level) for ct in cts)


def prefixes(sample: Sample) -> Iterator[Sample]:
    """The beginnings of a text in reverse, the shortest first: of one row, of two, ... of all."""
    return (beginning(sample, count) for count in range(1, _length(sample) + 1))


def beginning(sample: Sample, count: int) -> Sample:
    """The first rows of a text in reverse, at most so many."""
    (rows, mask), whole = sample, _length(sample)
    count, found, real = min(count, whole), np.zeros_like(rows), np.zeros_like(mask)
    found[:count], real[:count] = rows[whole - count : whole], 1.0
    return found, real


def _length(sample: Sample) -> int:
    return int(np.count_nonzero(sample[1]))
