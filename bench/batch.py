"""Figures of a batch: how good the answers are, what the circuit counts, what each stage took beside its
prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.evaluate.session import MEMORY_GB
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.schemes.ciphertext_estimate import stage_estimates

Array = NDArray[np.float64]
ROTATIONS = ("rotate", "rotate_hoisted", "rotate_shared", "conjugate")
RELINEARISATIONS = ("mul", "relin")


class StageClock:
    """Progress callback of any number of runs: seconds of each stage, bootstraps included, added up over the
    runs."""

    def __init__(self) -> None:
        self._began: list[tuple[str, float]] = []
        self.seconds: dict[str, float] = {}

    def __call__(self, now: Progress) -> None:
        self._began.append((now.stage, now.seconds))
        if now.index == now.total:
            for (name, start), (_, end) in pairwise(self._began):
                self.seconds[name] = self.seconds.get(name, 0.0) + end - start
            self._began = []


def quality(
    logits: Array, reference: Array, labels: Sequence[int] | None = None, *, softmax: bool = False
) -> dict[str, Any]:
    """Answers and the float model's, both (inputs, outputs), and the labels' numbers where they are known.

    agreement, accuracy, reference_accuracy: shares of inputs. max_abs_error, mean_abs_error: of logits, over
    inputs and outputs. softmax: also the largest distance of a probability.
    """
    found, wanted = logits.argmax(axis=1), reference.argmax(axis=1)
    errors = np.abs(logits - reference)
    figures: dict[str, Any] = {
        "agreement": float(np.mean(found == wanted)),
        "accuracy": None if labels is None else float(np.mean(found == np.array(labels))),
        "reference_accuracy": None if labels is None else float(np.mean(wanted == np.array(labels))),
        "max_abs_error": float(errors.max()),
        "mean_abs_error": float(errors.mean()),
    }
    if softmax:
        figures["max_softmax_error"] = float(np.abs(probabilities(logits) - probabilities(reference)).max())
    return figures


def probabilities(logits: Array) -> Array:
    """Softmax over the last axis."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def operation_counts(plan: Plan) -> dict[str, int]:
    """Counts the operations of one request, those inside bootstraps left out.

    key_switches: rotations and relinearisations."""
    total: Counter[str] = Counter()
    for stage in plan.stages:
        total.update(stage.counts)
    rotations, relinearised = (sum(total[name] for name in names) for names in (ROTATIONS, RELINEARISATIONS))
    return {"bootstraps": plan.bootstraps, "rotations": rotations, "key_switches": rotations + relinearised}


def stage_rows(
    plan: Plan, seconds: Mapping[str, float], requests: int, memory: float = MEMORY_GB, *, warm: bool = False
) -> list[dict[str, Any]]:
    """One row a stage: seconds of one request (the mean over `requests`; None for one that did not run), and
    what the estimate says within this limit of memory. warm: in a process whose memory an earlier
    request has touched."""
    rows = []
    for stage in stage_estimates(plan, memory):
        taken = seconds[stage.name] / requests if stage.name in seconds else None
        touching = 0.0 if warm else stage.touch_seconds / requests
        predicted = stage.seconds + stage.spill_seconds + touching
        rows.append({"name": stage.name, "seconds": taken, "predicted_seconds": predicted})
    return rows
