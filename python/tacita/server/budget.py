"""How much of a memory limit ciphertexts may take, and how much of them will not fit: from the plan's
prediction."""

from __future__ import annotations

from tacita.errors import ResourceError
from tacita.plans.plan import Plan
from tacita.run.resources import GB

RESULTS = 8  # one part in so many is free for results
LEAST = 4  # one part in so many of the predicted budget is used in any case
NUMBER = 8  # bytes of a weight in a model: float64
LIMB = 8  # bytes of a residue: a double
# bytes of a layer's weight in a circuit, beside those of the model: its place in complex, padded diagonals
# and what the process grows by on the way. Measured, 24.7 on three layers of BERT-base's shape (21.9 million
# weights, packing rows): 18.4 of them in the diagonals
IN_CIRCUIT = 25


def ciphertext_budget(plan: Plan, memory: float) -> int:
    """Bytes that a limit of `memory` GB leaves for ciphertexts at rest, beside keys, bootstrapping and
    process.

    An eighth of what is left is kept free for the results of the running operation, before others make room
    for them. Raises ResourceError when it leaves nothing.
    """
    fixed = fixed_bytes(plan)
    budget = int(memory * GB) - fixed
    if budget <= 0:
        raise ResourceError(
            f"evaluation within {memory:g} GB: keys and process alone need {fixed / GB:.1f} GB",
            hint="allow it more: --memory, or memory= of the Server",
        )
    return budget - budget // RESULTS


def measured_budget(predicted: int, memory: float, taken: int | None, results: int = 0) -> int:
    """The same once everything else is there. taken: bytes of this process without idle ones (None: not
    known). results: bytes that one operation's results may have, to be kept free if an eighth is less.

    A process may hold more than the plan knows of: what it planned with, another model's server. Where the
    limit leaves hardly anything, a quarter of what was predicted is used: the run goes on, and more is
    written to disk.
    """
    if taken is None:
        return predicted
    left = max(0, int(memory * GB) - taken)
    return min(predicted, max(left - max(left // RESULTS, results), predicted // LEAST))


def results_bytes(plan: Plan, group: int) -> int:
    """Of so many ciphertexts that are refreshed at once: on their way they have about twice the limbs that
    they end with."""
    limbs = 2 * (plan.parameters.max_level + 1)
    return group * 2 * limbs * 2 * plan.parameters.slots * LIMB


def server_bytes(plan: Plan) -> int:
    """Bytes of an evaluation without a limit: what the plan predicts, and model and circuit, whose size
    follows from the sizes of the model and so needs no place in the plan."""
    return plan.prediction.bytes["server_memory"] + circuit_bytes(plan)


def fixed_bytes(plan: Plan) -> int:
    """Of these, all but ciphertexts: keys, matrices of bootstrapping, process, model and circuit."""
    return server_bytes(plan) - _working(plan)


def circuit_bytes(plan: Plan) -> int:
    """Bytes of the model's numbers and of the circuit built from them; BERT-base's take 2.8 GB."""
    m = plan.model
    weights = m.layers * (4 * m.hidden**2 + 2 * m.hidden * m.intermediate)
    tables = m.embeddings.vocab + m.embeddings.positions + m.embeddings.types if m.embeddings else 0
    return weights * (NUMBER + IN_CIRCUIT) + tables * m.hidden * NUMBER


def predicted_memory(plan: Plan, memory: float) -> int:
    """Bytes of the evaluation's peak: the limit, or the plan's need where that is less."""
    return min(server_bytes(plan), int(memory * GB))


def working_bytes(plan: Plan, memory: float) -> int:
    """Bytes of ciphertexts that are in memory at the peak of an evaluation, by the plan's prediction; 0 where
    the limit leaves none."""
    return max(0, min(_working(plan), int(memory * GB) - fixed_bytes(plan)))


def predicted_spill(plan: Plan, budget: int) -> int:
    """Bytes of files at the peak, at most: 0 when everything fits, else one for each ciphertext, in memory or
    not."""
    working = _working(plan)
    return working if working > budget else 0


def _working(plan: Plan) -> int:
    """Bytes of ciphertexts alive at the peak."""
    return max(plan.prediction.stage_bytes, default=0)
