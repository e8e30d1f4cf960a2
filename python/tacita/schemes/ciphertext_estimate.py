"""What a run on ciphertexts would cost, stage by stage: time, memory, bytes, error and security of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from tacita.evaluate.keyring import fixed_bytes, predicted_spill
from tacita.evaluate.session import MEMORY_GB
from tacita.plans.commitment import LinkSpeed
from tacita.plans.plan import PlacedStage, Plan
from tacita.resources import GB, available_memory

KEY_SWITCHES = ("rotate", "rotate_shared", "rotate_hoisted", "conjugate", "relin", "mul")


@dataclass(frozen=True)
class StageEstimate:
    """What a stage should cost. seconds: bootstraps included, in memory that the process has used before.
    products: of ciphertexts. bytes: of the ciphertexts alive at its peak; spill_bytes: what of these is
    beyond the memory limit.

    touch_seconds: in the first request of a process, for the memory by which this stage makes it grow.
    spill_seconds: for taking what is beyond the limit to disk and back once, in every request. Both are 0
    where the prices have none.
    """

    name: str
    seconds: float
    seconds_per_input: float
    bootstraps: int
    key_switches: int
    products: int
    bytes: int
    spill_bytes: int
    touch_seconds: float = 0.0
    spill_seconds: float = 0.0


def estimate(
    plan: Plan, inputs: int | None = None, *, link: LinkSpeed | None = None, memory: float = MEMORY_GB
) -> dict[str, Any]:
    """JSON fields. inputs: texts to classify (default: one request full). link: between client and server,
    None where nothing is to be sent. memory: the server's limit, GB.
    """
    count = inputs or plan.batch
    requests = ceil(count / plan.batch)
    stages = list(stage_estimates(plan, memory))
    touch, spill = (sum(getattr(s, f"{name}_seconds") for s in stages) for name in ("touch", "spill"))
    seconds = plan.predicted_seconds(link) * requests + touch + spill * requests
    return {
        "model": plan.model.name,
        "scheme": plan.scheme,
        "packing": plan.packing,
        "tokens": plan.tokens,
        "texts_per_request": plan.batch,
        "lanes": plan.lanes,
        "inputs": count,
        "requests": requests,
        "wall_seconds": seconds,
        "seconds_per_input": seconds / count,
        "seconds": dict(plan.prediction.seconds),
        "touch_seconds": touch,
        "spill_seconds": spill,
        "stages": [asdict(stage) for stage in stages],
        "stage_seconds": {s.name: t for s, t in zip(plan.stages, plan.prediction.stage_seconds, strict=True)},
        "stage_bytes": {s.name: n for s, n in zip(plan.stages, plan.prediction.stage_bytes, strict=True)},
        "bytes": dict(plan.prediction.bytes),
        "bootstraps": plan.bootstraps,
        "key_switches": sum(key_switches(stage) for stage in plan.stages),
        "rotation_keys": len(plan.rotations),
        "error": asdict(plan.prediction.error),
        "parameters": parameters(plan),
        "machine": plan.prediction.machine,
        "threads": plan.prediction.threads,
        "memory_limit_gb": memory,
        "spill_gb": predicted_spill(plan, _room(plan, memory)) / GB,
        "too_large": too_large(plan, memory),
    }


def stage_estimates(plan: Plan, memory: float = MEMORY_GB) -> Iterator[StageEstimate]:
    """One for each stage of the plan, in its order."""
    p = plan.prediction
    room, touched = _room(plan, memory), 0
    for stage, seconds, alive in zip(plan.stages, p.stage_seconds, p.stage_bytes, strict=True):
        held, spilled = min(alive, room), max(0, alive - room)
        grown, touched = max(0, held - touched), max(held, touched)
        yield StageEstimate(
            name=stage.name,
            seconds=seconds,
            seconds_per_input=seconds / plan.batch,
            bootstraps=len(stage.kinds) + stage.through,
            key_switches=key_switches(stage),
            products=ciphertext_products(stage),
            bytes=alive,
            spill_bytes=spilled,
            touch_seconds=_share(plan, "touch", grown),
            spill_seconds=_share(plan, "spill", spilled),
        )


def _share(plan: Plan, step: str, count: int) -> float:
    """Seconds of so many bytes: the plan's prediction has those of its whole working memory."""
    whole = max(plan.prediction.stage_bytes, default=0)
    return plan.prediction.seconds.get(step, 0.0) * count / whole if whole else 0.0


def key_switches(placed: PlacedStage) -> int:
    """Rotations, conjugations, relinearisations of a stage, bootstraps excepted."""
    return sum(placed.counts.get(op, 0) for op in KEY_SWITCHES)


def ciphertext_products(placed: PlacedStage) -> int:
    """Products of two ciphertexts of a stage, relinearised or not."""
    return sum(placed.counts.get(op, 0) for op in ("mul", "tensor", "outer"))


def too_large(plan: Plan, memory: float = MEMORY_GB) -> list[str]:
    """What does not fit: what must be in memory at once against the limit and this machine, stages against
    the limit.
    """
    free, fixed = available_memory(), fixed_bytes(plan)
    problems = []
    for what, need in (
        ("keys, matrices and circuit", fixed),
        ("key generation", plan.prediction.bytes["client_memory"]),
    ):
        limit = memory * GB if free is None else min(free, memory * GB)
        if need > limit:
            problems.append(f"{what} need {_gb(need)}, {_gb(limit)} may be taken")
    over = [stage for stage in stage_estimates(plan, memory) if stage.spill_bytes]
    if over:
        worst = max(over, key=lambda stage: stage.spill_bytes)
        spilled = f"{_gb(worst.spill_bytes)} of {_gb(worst.bytes)} go to disk in {worst.name}"
        problems.append(f"{len(over)} of {len(plan.stages)} stages do not fit {memory:g} GB: {spilled}")
    return problems


def parameters(plan: Plan) -> dict[str, Any]:
    """The parameters that a reader needs to judge the security of a run."""
    p = plan.parameters
    return {
        "preset": p.preset,
        "log_n": p.log_n,
        "log_qp": p.log_qp,
        "security_bits": p.security_bits,
        "secret": p.secret,
        "failure_log2": p.failure_log2,
    }


def _room(plan: Plan, memory: float) -> int:
    """Bytes that the memory limit leaves for ciphertexts."""
    return max(0, int(memory * GB) - fixed_bytes(plan))


def _gb(count: float) -> str:
    return f"{count / GB:.2f} GB"
