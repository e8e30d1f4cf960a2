"""How much of a memory limit ciphertexts may take, and how much of them will not fit: from the plan's
prediction."""

from __future__ import annotations

from tacita.errors import ResourceError
from tacita.plans.plan import Plan
from tacita.run.resources import GB

RESULTS = 8  # one part in so many is free for results


def ciphertext_budget(plan: Plan, memory: float) -> int:
    """Bytes that a limit of `memory` GB leaves for ciphertexts at rest, beside keys, bootstrapping and
    process.

    An eighth of what is left is kept free for the results of the running operation, before others make room
    for them. Raises ResourceError when it leaves nothing.
    """
    fixed = plan.prediction.bytes["server_memory"] - _working(plan)
    budget = int(memory * GB) - fixed
    if budget <= 0:
        raise ResourceError(
            f"evaluation within {memory:g} GB: keys and process alone need {fixed / GB:.1f} GB",
            hint="allow it more: --memory, or memory= of the Server",
        )
    return budget - budget // RESULTS


def predicted_memory(plan: Plan, memory: float) -> int:
    """Bytes of the evaluation's peak: the limit, or the plan's need where that is less."""
    return min(plan.prediction.bytes["server_memory"], int(memory * GB))


def predicted_spill(plan: Plan, budget: int) -> int:
    """Bytes of files at the peak, at most: 0 when everything fits, else one for each ciphertext, in memory or
    not."""
    working = _working(plan)
    return working if working > budget else 0


def _working(plan: Plan) -> int:
    """Bytes of ciphertexts alive at the peak."""
    return max(plan.prediction.stage_bytes, default=0)
