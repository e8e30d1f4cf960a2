"""Many texts on plain or sim: one process a core, each with one thread (`tacita.cli`), so that no
two share a core.

The seed of sim's noise is the number of the text, and a process takes a text as a whole: answers do not
depend on how many processes there are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacita import api
from tacita.checkpoint import load
from tacita.front.embed import Text
from tacita.schemes.base import AnyPlan


@dataclass(frozen=True)
class Answered:
    """An answer, the float model's, and the seconds of the first."""

    answer: api.Answer
    reference: npt.NDArray[np.float64]
    seconds: float


@contextmanager
def answered_locally(
    plan: AnyPlan, model: Path, pooling: str | None, texts: Sequence[Text], *, backend: str, processes: int
) -> Iterator[Iterator[Answered]]:
    """Answers in the order of the texts, as they come. The processes end with the block."""
    work = partial(_answered, plan, str(model), pooling, backend)
    with ProcessPoolExecutor(min(processes, len(texts)), mp_context=get_context("spawn")) as workers:
        yield workers.map(work, enumerate(texts))


_opened = lru_cache(maxsize=1)(load)  # the model of a process


def _answered(
    plan: AnyPlan, model: str, pooling: str | None, backend: str, numbered: tuple[int, Text]
) -> Answered:
    seed, text = numbered
    checkpoint = _opened(model, pooling=pooling)
    began = time.monotonic()
    answer = api.classify_locally(plan, checkpoint, text, backend=backend, seed=seed)
    seconds = time.monotonic() - began
    return Answered(answer, api.reference_logits(plan, checkpoint, text), seconds)
