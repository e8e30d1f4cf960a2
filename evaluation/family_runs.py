"""Answers to texts one after another in each way that `families.py` compares with floats, and what each took.

    for run in RUNS["shares"](plan, model, texts):
        run.answer, run.seconds, run.bytes

The first text of a process also pays for what is done once (keys in memory, first touch of memory, base
transfers): `families.py` reports the median.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.client import Answer
from tacita.plans.files import Workdir
from tacita.schemes.base import AnyPlan, Place
from tacita.schemes.registry import scheme_of
from tacita.schemes.two_parties import TwoParties, dialled, listening

MEMORY_GB = 15.0  # of the server that evaluates ciphertexts
SCHEMES = {"sim": "thor", "ckks": "thor", "fixed": "bumblebee", "shares": "bumblebee"}


@dataclass(frozen=True)
class Run:
    """seconds: of the server's evaluation, or of both parties from question to answer; in the clear of the
    arithmetic. bytes: of request and response, or both ways; 0 in the clear."""

    answer: Answer
    seconds: float
    bytes: int = 0


Runs = Callable[[AnyPlan, Checkpoint, Sequence[str]], Iterator[Run]]


def clear(plan: AnyPlan, model: Checkpoint, texts: Sequence[str]) -> Iterator[Run]:
    """On `sim`: the engine's noise, or the two parties' integers. Nothing is encrypted."""
    for text in texts:
        began = time.monotonic()
        yield Run(api.classify_locally(plan, model, text, backend="sim"), time.monotonic() - began)


def shares(plan: AnyPlan, model: Checkpoint, texts: Sequence[str]) -> Iterator[Run]:
    """Two parties in this process, over TLS on the loopback."""
    scheme = TwoParties()
    with (
        tempfile.TemporaryDirectory() as folder,
        listening(scheme.server(plan, model)) as address,
        dialled(address) as party,
    ):
        client = scheme.client(party, Path(folder))
        for text in texts:
            began, before = time.monotonic(), _both_ways(party.cost)
            answer = client.classify(text)
            yield Run(answer, time.monotonic() - began, _both_ways(party.cost) - before)
        client.end()


def ckks(plan: AnyPlan, model: Checkpoint, texts: Sequence[str]) -> Iterator[Run]:
    """Encrypted at the plan's security, one request after another at a server that keeps its keys."""
    with tempfile.TemporaryDirectory() as folder:
        place, files = Place(Path(folder), memory=MEMORY_GB), Workdir(Path(folder))
        with scheme_of(plan.scheme).private(plan, model, place) as private:
            for text in texts:
                (answer,), seconds = private.answer([text], "")
                sent = files.request.stat().st_size + files.response.stat().st_size
                yield Run(answer, seconds["evaluate"], sent)


def _both_ways(cost: dict[str, float]) -> int:
    return int(cost["bytes_sent"] + cost["bytes_received"])


RUNS: dict[str, Runs] = {"sim": clear, "fixed": clear, "shares": shares, "ckks": ckks}
