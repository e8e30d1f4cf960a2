"""How long two parties take here for one second of the machine that their estimate is of, by texts of the
default model: both parties in this process, the set-up of the session left out."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tacita.checkpoint import load
from tacita.data import DEFAULT_MODEL
from tacita.planning.calibrate.calibrate import load_texts
from tacita.planning.request import PlanRequest
from tacita.plans.scheme import BUMBLEBEE
from tacita.schemes.base import Place
from tacita.schemes.two_parties import TwoParties
from tacita.two_party.planning import make_two_party_plan

TOKENS, TEXTS = 128, 4  # the first also pays for what is done once a session


def measure_pace(tokens: int = TOKENS) -> float:
    """Seconds here for one second there, of the quickest text. Takes 20 s and 1 GB."""
    model, texts = load(DEFAULT_MODEL), load_texts()[:TEXTS]
    plan = make_two_party_plan(model, PlanRequest(tokens=tokens, scheme=BUMBLEBEE))
    with (
        tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder,
        TwoParties().private(plan, model, Place(Path(folder))) as private,
    ):
        taken = [private.answer([text], "")[1]["evaluate"] for text in texts]
    return min(taken[1:]) / plan.predicted_seconds()
