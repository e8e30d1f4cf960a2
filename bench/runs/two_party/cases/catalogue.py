"""All cases, and how their parties connect: what a child process runs on."""

from __future__ import annotations

from collections.abc import Mapping

from bench.runs.two_party.cases.accuracy import Accuracy
from bench.runs.two_party.cases.case import Case
from bench.runs.two_party.cases.correlations import Ferret
from bench.runs.two_party.cases.elementwise import Gelu, Less, Softmax
from bench.runs.two_party.cases.matrices import PrivateTimesPrivate, ShareTimesWeights
from bench.runs.two_party.cases.models import (
    BertBaseShape,
    BertLargeShape,
    DefaultModel,
    MiniLm,
    TinyShape,
    VitBaseShape,
)
from bench.runs.two_party.session import connect, listen

__all__ = ["CASES", "connect", "listen"]

ALL: tuple[Case, ...] = (
    ShareTimesWeights(),
    PrivateTimesPrivate(),
    Gelu(),
    Softmax(),
    Less(),
    Ferret(),
    DefaultModel(),
    TinyShape(),
    MiniLm(),
    BertBaseShape(),
    BertLargeShape(),
    VitBaseShape(),
    Accuracy(),
)
CASES: Mapping[str, Case] = {case.name: case for case in ALL}
